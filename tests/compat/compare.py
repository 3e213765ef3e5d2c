# SPDX-License-Identifier: Apache-2.0
"""Compares the facts of NVIDIA's Python surface (facts/*.json) with the tables in api/*.json.

`missing(library)` lists every function, argument, enum value, constant, class and field of the surface that is missing in
the tables. Facts have readable names: "cuFoo", "cuFoo(arg)", "CUenum.MEMBER", "CUstruct.field".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "codegen"))

import facts  # noqa: E402
from factfile import Facts, read_facts  # noqa: E402
from scan.surface import match_arguments, parse_signature, plain  # noqa: E402

LIBRARIES = ("driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile")
C_STYLE = ("driver", "runtime", "nvrtc")  # these keep C names; the others rename
NOT_API = {"Optional", "sizeof", "check_status", "check_status_size", "ctypes"}  # helpers of the module itself


def surface(library: str) -> Facts:
    return read_facts(HERE / "facts" / f"cuda.bindings.{library}.json")


def missing(library: str) -> list[str]:
    table = facts.load(library, later=True)
    theirs = surface(library)
    checks = (functions, c_enums, c_classes) if library in C_STYLE else (functions, renamed_enums, renamed_classes)
    found = [item for check in checks for item in check(table, theirs)]
    return sorted([*found, *constants(table, theirs)])


def functions(table: facts.Library, theirs: Facts) -> Iterator[str]:
    by_python = {f.python or f.name: f for f in table.functions.values()}
    by_python.update({f.symbol: f for f in table.functions.values() if not f.python})
    for name, signature in theirs["functions"].items():
        if name in NOT_API:
            continue
        function = by_python.get(name)
        if function is None:
            yield name
        elif not function.python_args:
            arguments = parse_signature(signature)
            if match_arguments([p.name for p in function.params], arguments) is None:
                yield from (f"{name}({a.name})" for a in arguments)


def same_value(ours: int | None, theirs: int) -> bool:
    """Enumerators beyond 31 bits may be signed or unsigned; both have the same bits."""
    return ours is not None and (ours - theirs) % (1 << 32) == 0


def c_enums(table: facts.Library, theirs: Facts) -> Iterator[str]:
    for name, members in theirs["enums"].items():
        enum = table.enum_of(name)
        if enum is None:
            yield name
            continue
        values = dict(enum.values)
        yield from (f"{name}.{m}" for m, v in members.items() if not same_value(values.get(m), v))


def field_names(record: facts.Record) -> Iterator[str]:
    for item in record.fields:
        if item.name:
            yield item.name
        elif item.record is not None:
            yield from field_names(item.record)


def in_place_tags(table: facts.Library) -> dict[str, facts.Record]:
    """Tagged records that are defined inside another one, which C makes visible globally."""

    def walk(record: facts.Record) -> Iterator[facts.Record]:
        for item in record.fields:
            if item.record is not None:
                yield item.record
                yield from walk(item.record)

    return {r.name: r for top in table.records.values() for r in walk(top) if r.name}


def c_classes(table: facts.Library, theirs: Facts) -> Iterator[str]:
    nested = in_place_tags(table)
    for name, row in theirs["classes"].items():
        if name.startswith("cudaBindings"):
            continue  # a private object of the module
        if name in table.anonymous:
            record = follow(table, table.anonymous[name])
        else:
            record = table.record_of(name) or nested.get(name)
        if record is None:
            if name not in table.typedefs:
                yield name
            continue
        have = set(field_names(record))
        yield from (f"{name}.{p}" for p in row["properties"] if p not in have and p.rstrip("_") not in have)


def follow(table: facts.Library, path: str) -> facts.Record | None:
    """'Record.member.member' -> the record defined in place there."""
    first, *rest = path.split(".")
    record = table.record_of(first)
    for member in rest:
        record = next((r for r in member_records(record, member)), None) if record else None
    return record


def member_records(record: facts.Record, member: str) -> Iterator[facts.Record]:
    for item in record.fields:
        if item.record is not None:
            if item.name == member:
                yield item.record
            elif not item.name:
                yield from member_records(item.record, member)


def renamed_enums(table: facts.Library, theirs: Facts) -> Iterator[str]:
    values = {n: v for e in table.enums.values() for n, v in e.values}
    values.update({c.name: c.value for c in table.constants.values() if isinstance(c.value, int)})
    for name, members in theirs["enums"].items():
        if name == "pyCUresult":  # cuFile's copy of the driver's results
            ours = dict(facts.load("driver").enums["cudaError_enum"].values)
        else:
            ours = {m: values[c] for m, c in table.python_enums.get(name, ())}
        yield from (f"{name}.{m}" for m, v in members.items() if not same_value(ours.get(m), v))


def renamed_classes(table: facts.Library, theirs: Facts) -> Iterator[str]:
    for name, row in theirs["classes"].items():
        if any("Exception" in base for base in row["bases"]):
            continue  # one exception per result, created by the module
        known = table.python_structs.get(name)
        record = follow(table, known.type) if known else None
        if known is None or record is None:
            yield name
            continue
        have = {plain(n) for n in field_names(record)}
        shown = [p for p in row["properties"] if p != "ptr"]
        yield from (f"{name}.{p}" for p in shown if plain(known.fields.get(p, p)) not in have)


def constants(table: facts.Library, theirs: Facts) -> Iterator[str]:
    for name, value in theirs["constants"].items():
        constant = table.constants.get(name) or table.constants.get(f"{table.name.upper()}_{name}")
        if constant is None or constant.value != value:
            yield name
