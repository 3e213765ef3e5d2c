# SPDX-License-Identifier: Apache-2.0
"""Adds the extension modules of other Pythons to a wheel, so that one file serves them all.

    python tools/add_pythons.py dist/cucore-0.1.0-cp311-cp311-linux_x86_64.whl FOLDER ...

A FOLDER is an installation of `cmake --install --component python` with another Python. Python tells modules by their names
(`_core.cpython-312-x86_64-linux-gnu.so`), so those of all versions lie beside each other.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import wheel_file

MODULE = re.compile(r"_\w+\.cpython-(\d+)-[\w-]+\.so")


def modules(folder: Path) -> dict[str, Path]:
    """The extension modules of an installation, by their names in a wheel."""
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.so")) if MODULE.fullmatch(path.name)}


def version(name: str) -> str:
    """`cp312` of a module's name."""
    found = MODULE.fullmatch(Path(name).name)
    return f"cp{found[1]}" if found else ""


def add(wheel: Path, folders: list[Path]) -> Path:
    """Writes the wheel with the modules of the folders, under the name that lists all Pythons. Returns its path."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/RECORD"))
        files = {name: archive.read(name) for name in archive.namelist() if name != record and not name.endswith("/")}
        modes = {entry.filename: entry.external_attr >> 16 or 0o100644 for entry in archive.infolist()}
    first = sorted(name for name in files if version(name))
    for folder in folders:
        found = modules(folder)
        if sorted(Path(name).name.partition(".")[0] for name in found) != sorted(
            Path(name).name.partition(".")[0] for name in first
        ):
            raise SystemExit(f"{folder} has the modules {', '.join(found) or 'none'}; the wheel has {', '.join(first)}")
        for name, path in found.items():
            files[name] = path.read_bytes()
            modes[name] = 0o100755
    pythons = sorted({version(name) for name in files if version(name)}, key=lambda tag: int(tag[3:]))
    project, number, *_, platform = wheel.stem.split("-")
    about = record.replace("RECORD", "WHEEL")
    lines = [line for line in files[about].decode().splitlines() if line and not line.startswith("Tag:")]
    files[about] = "\n".join([*lines, *(f"Tag: {tag}-{tag}-{platform}" for tag in pythons), ""]).encode()
    joined = ".".join(pythons)
    wheel.unlink()
    target = wheel.with_name(f"{project}-{number}-{joined}-{joined}-{platform}.whl")
    wheel_file.write(target, files, record, modes)
    return target


if __name__ == "__main__":
    print(add(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]]).name)
