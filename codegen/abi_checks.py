# SPDX-License-Identifier: Apache-2.0
"""Renders <library>_facts.inc: one row per size, offset, value and prototype, to be compared with a header.

The rows are compiled twice, with the rendered header and with NVIDIA's. Both must match the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from facts import Function, Library, Record

HEADER = """\
// {name}_facts.inc: facts of api/{name}.json as rows. Rendered by codegen/abi_checks.py.
//   CUCORE_FACT(text, expected, actual)         sizes, offsets, enumerators and constants
//   CUCORE_PROTOTYPE(symbol, type)              the function type of an exported symbol
// Rows of interop headers and of older versions come under CUCORE_FACTS_INTEROP and CUCORE_FACTS_OLDER.
"""


def number(value: int) -> str:
    if value > 0x7FFFFFFFFFFFFFFF:
        return f"(long long){value}ull"
    return f"{value}ll"


def fact(text: str, expected: int, actual: str) -> str:
    return f'CUCORE_FACT("{text}", {number(expected)}, (long long)({actual}))'


def record_rows(name: str, record: Record) -> Iterator[str]:
    yield fact(f"sizeof({name})", record.size, f"sizeof({name})")
    yield fact(f"alignof({name})", record.align, f"alignof({name})")
    yield from field_rows(name, record, "", 0)


def field_rows(name: str, record: Record, path: str, base: int) -> Iterator[str]:
    for item in record.fields:
        if item.bits or (item.record is None and not item.name):
            continue  # offsetof() of a bit field is invalid
        here = path + item.name
        if item.name:
            yield fact(f"offsetof({name}, {here})", base + item.offset, f"offsetof({name}, {here})")
        if item.record is not None and not item.array:
            yield from field_rows(name, item.record, f"{here}." if item.name else path, base + item.offset)


def prototype_rows(symbol: str, function: Function) -> Iterator[str]:
    types = ", ".join(p.type for p in function.params)
    for name in (symbol, function.per_thread):
        if name:
            yield f"CUCORE_PROTOTYPE({name}, {function.returns}({types}))"


def section(condition: str, rows: list[str]) -> list[str]:
    return [f"#ifdef {condition}", *rows, "#endif"] if rows else []


def render_facts(library: Library) -> str:
    plain: list[str] = []
    interop: list[str] = []
    older: list[str] = []
    older_interop: list[str] = []
    for name, record in library.records.items():
        rows = list(record_rows(name, record))
        (interop if record.group else older if record.older else plain).extend(rows)
    for enum in library.enums.values():
        rows = [fact(name, value, name) for name, value in enum.values if name not in enum.later]
        if rows:
            rows.append(fact(f"sizeof({enum.name})", 4, f"sizeof({enum.name})"))
        (interop if enum.group else plain).extend(rows)
    for constant in library.constants.values():
        if isinstance(constant.value, int) and not constant.later:
            (interop if constant.group else plain).append(fact(constant.name, constant.value, constant.name))
    for symbol, function in library.symbols().items():
        current = symbol not in library.older
        rows = list(prototype_rows(symbol, function))
        if function.group:
            (interop if current else older_interop).extend(rows)
        elif current:
            plain.append(rows[0])
            older += rows[1:]
        else:
            older += rows
    both = section("CUCORE_FACTS_INTEROP", older_interop)
    return HEADER.format(name=library.name) + "\n".join(
        [*plain, *section("CUCORE_FACTS_INTEROP", interop), *section("CUCORE_FACTS_OLDER", older + both), ""]
    )
