# SPDX-License-Identifier: Apache-2.0
"""Reads the dynamic symbols that a 64-bit little-endian ELF library defines, and their binding."""

from __future__ import annotations

import struct
from pathlib import Path

DYNSYM = 11
WEAK = 2


class NotAnElfFile(ValueError):
    """The file is not a 64-bit little-endian ELF file."""


def defined_symbols(path: Path) -> dict[str, bool]:
    """Name -> True for a strong definition, False for a weak one. Undefined symbols are skipped."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotAnElfFile(f"{path}: not a 64-bit little-endian ELF file")
    table_at, entry_size, count = section_header_table(data)
    sections = [read_section(data, table_at + i * entry_size) for i in range(count)]
    result: dict[str, bool] = {}
    for kind, offset, size, link in sections:
        if kind != DYNSYM:
            continue
        names_at = sections[link][1]
        for at in range(offset, offset + size, 24):
            name, info, _, section_index = struct.unpack_from("<IBBH", data, at)
            if section_index == 0:
                continue
            start = names_at + name
            text = data[start : data.index(b"\0", start)].decode()
            result[text] = info >> 4 != WEAK
    return result


def section_header_table(data: bytes) -> tuple[int, int, int]:
    (table_at,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    return table_at, entry_size, count


def read_section(data: bytes, at: int) -> tuple[int, int, int, int]:
    """(type, offset, size, link) of one section header."""
    kind = struct.unpack_from("<I", data, at + 4)[0]
    offset, size, link = struct.unpack_from("<QQI", data, at + 24)
    return kind, offset, size, link
