# SPDX-License-Identifier: Apache-2.0
"""Writes wheels named cuda-core, cuda-bindings, cuda-pathfinder and cuda-python that contain only a dependency on cucore.

They satisfy packages that depend on NVIDIA's packages by name. Their versions are those of the provided modules with a local
suffix (1.2.2+cucore): they satisfy the same requirements, and pip prefers them to NVIDIA's 1.2.2.

    python tools/metadata_wheels.py dist
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomllib
import wheel_file

ROOT = Path(__file__).resolve().parent.parent
# Distribution: the file that contains its version, and the extras of NVIDIA's distribution.
PACKAGES = {
    "cuda-core": ("python/cuda/core/_version.py", ("cu12", "cu13")),
    "cuda-bindings": ("python/cuda/bindings/_version.py", ("all",)),
    "cuda-pathfinder": ("python/cuda/pathfinder/__init__.py", ("cu12", "cu13", "all")),
    "cuda-python": (
        "python/cuda/bindings/_version.py",
        ("all",),
    ),  # NVIDIA's name for all of them; it has the bindings' version
}


def version_in(path: Path) -> str:
    match = re.search(r'^__version__ = "([^"]+)"', path.read_text(), re.M)
    if match is None:
        raise SystemExit(f"{path}: no __version__")
    return match[1]


def main(folder: Path) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, (source, extras) in PACKAGES.items():
        public = version_in(ROOT / source)
        version = f"{public}+cucore"
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            f"Summary: Stands for {name} {public}; the modules come from cucore.",
            "License: Apache-2.0",
            "Requires-Python: >=3.10",
            f"Requires-Dist: cucore>={ours}",
        ]
        for extra in extras:
            lines.append(f"Provides-Extra: {extra}")
            lines.append(f'Requires-Dist: cucore[{extra if extra != "all" else "cu13"}]; extra == "{extra}"')
        text = f"\nThis wheel holds no files. It lets packages that require {name} use cucore, which provides the same modules.\n"
        stem = f"{name.replace('-', '_')}-{version}"
        info = f"{stem}.dist-info"
        files = {
            f"{info}/METADATA": ("\n".join(lines) + "\n" + text).encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: cucore\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        path = folder / f"{stem}-py3-none-any.whl"
        wheel_file.write(path, files, f"{info}/RECORD")
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
