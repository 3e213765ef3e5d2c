# SPDX-License-Identifier: Apache-2.0
"""The dynamic section of an ELF executable: required libraries and search paths."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 15, 29


class Dynamic(NamedTuple):
    needed: tuple[str, ...] = ()
    rpath: str = ""  # searched before LD_LIBRARY_PATH; ignored if there is a runpath
    runpath: str = ""  # searched after LD_LIBRARY_PATH


def has_section(path: Path, name: str) -> bool:
    """Returns whether a 64-bit little-endian ELF file has a section of this name; False for any other file."""
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x7fELF\x02\x01":
                return False
            file.seek(40)
            (table,) = struct.unpack("<Q", file.read(8))
            file.seek(58)
            size, count, names = struct.unpack("<HHH", file.read(6))
            file.seek(table)
            sections = [struct.unpack("<IIQQQQ", file.read(size)[:40]) for _ in range(count)]
            if names >= count:  # no section headers
                return False
            file.seek(sections[names][4])
            strings = b"\0" + file.read(sections[names][5])
    except (OSError, struct.error):
        return False
    wanted = name.encode() + b"\0"
    return any(strings[1 + section[0] :].startswith(wanted) for section in sections)


def read_dynamic(path: Path) -> Dynamic:
    """Reads the dynamic section of a 64-bit little-endian ELF file; empty for any other file, such as a script."""
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x7fELF\x02\x01":
                return Dynamic()
            file.seek(32)
            (table,) = struct.unpack("<Q", file.read(8))
            file.seek(54)
            size, count = struct.unpack("<HH", file.read(4))
            file.seek(table)
            segments = [struct.unpack("<IIQQQQQQ", file.read(size)[:56]) for _ in range(count)]
            dynamic = next((s for s in segments if s[0] == _PT_DYNAMIC), None)
            if dynamic is None:  # statically linked
                return Dynamic()
            file.seek(dynamic[2])
            entries = [tag_value for tag_value in struct.iter_unpack("<qQ", file.read(dynamic[5] // 16 * 16))]
            end = next((i for i, (tag, _) in enumerate(entries) if tag == _DT_NULL), len(entries))
            entries = entries[:end]
            address = next(value for tag, value in entries if tag == _DT_STRTAB)
            load = next(s for s in segments if s[0] == _PT_LOAD and s[3] <= address < s[3] + s[5])
            file.seek(load[2] + address - load[3])
            strings = file.read(load[3] + load[5] - address)
    except (OSError, struct.error, StopIteration):  # unreadable or malformed: the dynamic linker will report it
        return Dynamic()

    def texts(wanted: int) -> tuple[str, ...]:
        return tuple(
            strings[value : strings.index(b"\0", value)].decode(errors="surrogateescape")
            for tag, value in entries
            if tag == wanted and b"\0" in strings[value:]
        )

    return Dynamic(texts(_DT_NEEDED), ":".join(texts(_DT_RPATH)), ":".join(texts(_DT_RUNPATH)))
