# SPDX-License-Identifier: Apache-2.0
"""Maintainer's tool: finds the first release of each function in the headers of older wheels.

    pip download --no-deps -d WHEELS nvidia-cuda-runtime-cu12==12.4.99 ...      one wheel per release
    python codegen/scan_history.py WHEELS                                       writes api/history.json

cudaTypedefs.h contains the versions of driver functions; no header contains those of other libraries. A function in the
oldest wheel gets no row: its first release is unknown.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts
from factfile import Facts, write_facts

# library -> (package, header). Versions use CUDA's encoding (12.4 is 12040); cuFile has its own (1.15 is 1150).
SOURCES = {
    "runtime": ("nvidia_cuda_runtime", "cuda_runtime_api.h"),
    "nvml": ("nvidia_nvml_dev", "nvml.h"),
    "cufile": ("nvidia_cufile", "cufile.h"),
}


def version_of(wheel: Path) -> int:
    """nvidia_cuda_runtime_cu12-12.4.99-... is 12040; nvidia_cufile-1.15.0.42-... is 1150."""
    major, minor = wheel.name.split("-")[1].split(".")[:2]
    return int(major) * 1000 + int(minor) * 10


def names_in(wheel: Path, header: str) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        path = next((n for n in archive.namelist() if n.endswith(f"/{header}")), None)
        text = archive.read(path).decode(errors="replace") if path else ""
    return set(re.findall(r"\b((?:cuda|nvml|cuFile)[A-Z]\w+)\b", text))


def history(wheels: Path, library: str) -> Facts:
    package, header = SOURCES[library]
    found = sorted((version_of(w), w) for w in wheels.glob("*.whl") if re.match(rf"{package}(_cu\d+)?-", w.name))
    releases = [(version, names_in(wheel, header)) for version, wheel in found]
    releases = [(version, names) for version, names in releases if names]
    current = facts.load(library)
    since: dict[str, int] = {}
    for function in current.functions.values():
        if function.group:
            continue  # declared in a separate header
        first = next((v for v, names in releases if function.symbol in names), newest(current, releases))
        if first != releases[0][0]:
            since[function.name] = first
    return {"oldest": releases[0][0], **since}


def newest(library: facts.Library, releases: list[tuple[int, set[str]]]) -> int:
    """The version of the scanned headers: the first release of functions that no older release has."""
    return library.version if library.version >= 10000 else releases[-1][0] + 10


def main() -> int:
    wheels = Path(sys.argv[1])
    write_facts(facts.API / "history.json", {library: history(wheels, library) for library in SOURCES})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
