# SPDX-License-Identifier: Apache-2.0
"""Checks that a wheel is self-contained, and sets its manylinux tag.

    python tools/check_wheel.py dist/cucore-0.1.0-cp312-cp312-linux_x86_64.whl

Checks with readelf what auditwheel checks: required shared libraries, search paths, exported symbols, required glibc version.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import wheel_file

# Libraries of every Linux system with glibc; the wheel must contain all others.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so(\.\d+)?")
# Symbols that the CPU device may export, as patterns.
EXPORTS = Path(__file__).resolve().parents[1] / "cpu" / "exports.map"
VISIBLE = re.findall(r"^\s*([\w\[\]*-]+);$", EXPORTS.read_text().partition("local:")[0], re.M)
# The newest version of libstdc++'s symbols, GLIBCXX_3.4.n, on systems of manylinux_2_28.
GLIBCXX = 24
# Maximum installed size in bytes: total, without the CPU device (which is mostly LLVM), and of the modules of each further Python.
LIMIT, LIMIT_WITHOUT_DEVICE, LIMIT_PER_PYTHON = 60_000_000, 10_000_000, 4_000_000
# Maximum size of the file in bytes: with one Python by processor, and for each further one.
FILE_LIMIT, FILE_LIMIT_PER_PYTHON = {"aarch64": 14_300_000, "x86_64": 16_000_000}, 770_000


def readelf(path: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, str(path)], capture_output=True, text=True, check=True).stdout


def check(wheel: Path) -> tuple[list[str], tuple[int, int]]:
    """(errors, the newest required glibc version)."""
    problems: list[str] = []
    glibc = (2, 17)
    defined: set[str] = set()
    wanted: dict[str, set[str]] = {}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = set(archive.namelist())
        libraries = [
            name for name in names if ".so" in PurePosixPath(name).name and archive.read(name)[:4] == b"\x7fELF"
        ]
        inside = {PurePosixPath(name).name for name in libraries}
        for name in sorted(libraries):
            path = Path(archive.extract(name, folder))
            dynamic = readelf(path, "-d")
            for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
                if not SYSTEM.fullmatch(needed) and needed not in inside:
                    problems.append(f"{name} needs {needed}, which is neither inside nor on every system")
            for entry in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                for place in entry.split(":"):
                    if not place.startswith("$ORIGIN"):
                        problems.append(f"{name} looks for libraries in {place or 'the working directory'}")
            symbols = readelf(path, "--dyn-syms")
            for version in re.findall(r"@GLIBC_(\d+)\.(\d+)", symbols):
                glibc = max(glibc, (int(version[0]), int(version[1])))
            for version in re.findall(r"@GLIBCXX_3\.4\.(\d+)", symbols):
                if int(version) > GLIBCXX:
                    problems.append(f"{name} needs GLIBCXX_3.4.{version}, which manylinux_2_28 does not have")
                    break
            defined |= set(re.findall(r"(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+\s+(\w+)", symbols))
            wanted[name] = set(re.findall(r"GLOBAL\s+DEFAULT\s+UND\s+(\w+)\s*$", symbols, re.M))
            if PurePosixPath(name).name == "libcucore_cpu.so":
                shown = re.findall(r"(?:FUNC|OBJECT)\s+(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+\s+(\w+)", symbols)
                leaked = [symbol for symbol in shown if not any(fnmatchcase(symbol, pattern) for pattern in VISIBLE)]
                if leaked:
                    problems.append(f"{name} shows {len(leaked)} symbols that are not its own: {', '.join(leaked[:5])}")
                for pattern in ("cuInit", *VISIBLE):  # --exclude-libs hides also what exports.map lists
                    if not any(fnmatchcase(symbol, pattern) for symbol in shown):
                        problems.append(f"{name} does not show {pattern}")
        for name, names in wanted.items():  # without a version: of Python, of our own, or of no library at all
            missing = sorted(symbol for symbol in names - defined if not re.match(r"_?Py", symbol))
            if missing:
                problems.append(f"{name} needs symbols that no library has: {', '.join(missing[:5])}")
        if not any(name.endswith("libcucore_cpu.so") for name in libraries):
            problems.append("the CPU device is not inside")
        if any((entry.external_attr >> 16) & 0o170000 == 0o120000 for entry in archive.infolist()):
            problems.append("a wheel cannot hold links")
    whole, device = sizes(wheel)
    more = LIMIT_PER_PYTHON * wheel.stem.split("-")[2].count(".")
    if whole > LIMIT + more:
        problems.append(f"{whole:,} bytes installed are more than {LIMIT + more:,}")
    if whole - device > LIMIT_WITHOUT_DEVICE + more:
        problems.append(
            f"{whole - device:,} bytes without the CPU device are more than {LIMIT_WITHOUT_DEVICE + more:,}"
        )
    return problems, glibc


def check_size(wheel: Path) -> list[str]:
    """Errors of the finished file."""
    limit = next((size for machine, size in FILE_LIMIT.items() if wheel.stem.endswith(machine)), None)
    if limit is None:
        return []
    limit += FILE_LIMIT_PER_PYTHON * wheel.stem.split("-")[2].count(".")
    size = wheel.stat().st_size
    return [f"{size:,} bytes are more than {limit:,}"] if size > limit else []


def sizes(wheel: Path) -> tuple[int, int]:
    """Installed size in bytes: total, and the CPU device's library."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    return sum(e.file_size for e in entries), sum(
        e.file_size for e in entries if e.filename.endswith("libcucore_cpu.so")
    )


def retag(wheel: Path, platform: str) -> Path:
    """Writes the wheel with another platform tag and maximum compression."""
    name, version, python, abi, _ = wheel.stem.split("-")
    target = wheel.with_name(f"{name}-{version}-{python}-{abi}-{platform}.whl")
    with zipfile.ZipFile(wheel) as archive:
        record = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/RECORD"))
        files = {
            entry: archive.read(entry) for entry in archive.namelist() if entry != record and not entry.endswith("/")
        }
        modes = {entry.filename: entry.external_attr >> 16 or 0o100644 for entry in archive.infolist()}
    about = record.replace("RECORD", "WHEEL")
    files[about] = re.sub(rb"(?m)^(Tag: \w+-\w+)-.*$", rb"\1-" + platform.encode(), files[about])
    temporary = target.with_suffix(".tmp")
    wheel_file.write(temporary, files, record, modes)
    wheel.unlink()
    return temporary.rename(target)


def main(wheel: Path) -> int:
    problems, glibc = check(wheel)
    for problem in problems:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    if problems:
        return 1
    machine = wheel.stem.rsplit("linux_", 1)[-1]
    done = retag(wheel, f"manylinux_{glibc[0]}_{glibc[1]}_{machine}") if "-linux_" in wheel.name else wheel
    unpacked, device = sizes(done)
    with zipfile.ZipFile(done) as archive:
        packed = sum(
            entry.compress_size for entry in archive.infolist() if not entry.filename.endswith("libcucore_cpu.so")
        )
    if wheel_file.deflate is None:
        print("the package `deflate` is not installed: zlib compresses, to a few percent more")
    for problem in check_size(done):
        print(f"{done.name}: {problem}", file=sys.stderr)
        return 1
    print(f"{done.name}: {done.stat().st_size / 1e6:.1f} MB, installed {unpacked / 1e6:.1f} MB")
    print(f"  without the CPU device: {packed / 1e6:.1f} MB, installed {(unpacked - device) / 1e6:.1f} MB")
    print(
        f"  needs glibc {glibc[0]}.{glibc[1]}; shows no symbol of LLVM; needs no library that is not inside or the system's"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
