# SPDX-License-Identifier: Apache-2.0
"""Python names of C types: numbered names of records defined in place, and the classes of modules that rename.

cuda.bindings.driver names records that are defined inside others anon_struct0, anon_union2 and so on, in header order.
Modules such as NVML remove prefixes and change case. Both are matched with the known Python classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from factfile import Facts

from scan.surface import plain

Row = dict[str, Any]
HIDDEN = re.compile(r"reserved\w*|pad\w*|_\w+", re.IGNORECASE)


def in_place_records(structs: dict[str, Row]) -> Iterator[tuple[str, str, set[str]]]:
    """(path, kind, field names) of records defined inside others, in header order."""

    def walk(path: str, row: Row) -> Iterator[tuple[str, str, set[str]]]:
        for item in row["fields"]:
            if "record" in item and "tag" not in item["record"]:
                here = f"{path}.{item['name']}" if item["name"] else path
                yield from walk(
                    here, item["record"]
                )  # inner records precede outer ones, in the order in which a parser completes them
                if item["name"]:
                    yield here, item["record"]["kind"], set(field_names(item["record"]))

    for name, row in structs.items():
        yield from walk(name, row)


def field_names(row: Row) -> Iterator[str]:
    for item in row["fields"]:
        if item["name"]:
            yield item["name"]
        elif "record" in item:
            yield from field_names(item["record"])


def anonymous_classes(facts: Facts, surface: Facts) -> dict[str, str]:
    """anon_struct0 -> 'CUasyncNotificationInfo_st.info.overBudget'."""
    result: dict[str, str] = {}
    records = list(in_place_records(facts["structs"]))
    for kind in ("struct", "union"):
        waiting = [r for r in records if r[1] == kind]
        numbered = sorted(
            (int(n.removeprefix(f"anon_{kind}")), n) for n in surface["classes"] if re.fullmatch(rf"anon_{kind}\d+", n)
        )
        for _, name in numbered:
            shown = set(surface["classes"][name]["properties"])
            for index, (path, _, fields) in enumerate(waiting):
                if shown <= fields and all(HIDDEN.fullmatch(f) for f in fields - shown):
                    result[name] = path
                    del waiting[: index + 1]
                    break
    return result


def python_enums(facts: Facts, surface: Facts, prefix: str) -> dict[str, list[list[str]]]:
    """Python enum -> [[member, C enumerator or constant]]: same value, and the C name ends with the Python one."""
    by_value: dict[int, list[str]] = {}
    for row in facts["enums"].values():
        for name, value in row["values"]:
            by_value.setdefault(value, []).append(name)
    for name, row in facts["constants"].items():
        if "value" in row:
            by_value.setdefault(row["value"], []).append(name)
    result: dict[str, list[list[str]]] = {}
    for class_name, members in surface["enums"].items():
        candidates = {
            member: [n for n in by_value.get(value, []) if plain(n).endswith(plain(member))]
            for member, value in members.items()
        }
        stem = common_stem(plain(prefix + class_name), candidates)
        rows = [
            [member, min(names, key=lambda n: (not plain(n).startswith(stem), len(n), n))]
            for member, names in candidates.items()
            if names
        ]
        if rows:
            result[class_name] = rows
    return result


def common_stem(class_name: str, candidates: dict[str, list[str]]) -> str:
    """The common prefix of most C names of one Python enum."""
    votes: dict[str, int] = {}
    for member, names in candidates.items():
        for stem in {plain(n).removesuffix(plain(member)) for n in names}:
            votes[stem] = votes.get(stem, 0) + 1
    return max(votes, key=lambda s: (votes[s], s == class_name, class_name in s, s), default="")


def python_structs(facts: Facts, surface: Facts, prefix: str) -> dict[str, Row]:
    """Python class -> its C type, and the fields whose Python and C names differ."""
    names: dict[str, str] = {}
    for name in [*facts["structs"], *facts["typedefs"]]:
        key = plain(name)
        names.setdefault(key, name)
        names.setdefault(re.sub(r"(st|t)$", "", key), name)
    result: dict[str, Row] = {}
    for class_name, row in surface["classes"].items():
        if any("Error" in b or "Exception" in b for b in row["bases"]):
            continue
        type_name = names.get(plain(prefix + class_name)) or names.get(plain(class_name))
        record = find_record(facts, type_name) if type_name else None
        if record is None:
            type_name, record = by_fields(facts, class_name, {plain(p) for p in row["properties"]} - {"ptr"})
        if record is None:
            continue
        fields = {plain(n): n for n in field_names(record)}
        renamed = {}
        for shown in row["properties"]:
            c_name = fields.get(plain(shown))
            if c_name and c_name != shown:
                renamed[shown] = c_name
        result[class_name] = {"type": type_name, "fields": renamed}
    return result


def all_records(structs: dict[str, Row]) -> Iterator[tuple[str, Row]]:
    """Every record with its path, including those defined in place."""

    def walk(path: str, row: Row) -> Iterator[tuple[str, Row]]:
        yield path, row
        for item in row["fields"]:
            if "record" in item:
                yield from walk(f"{path}.{item['name']}" if item["name"] else path, item["record"])

    for name, row in structs.items():
        yield from walk(name, row)


def by_fields(facts: Facts, class_name: str, shown: set[str]) -> tuple[str, Row] | tuple[None, None]:
    """The record with exactly these fields; if there are several, the one whose path resembles the class name."""
    hits = [
        (path, row)
        for path, row in all_records(facts["structs"])
        if shown and shown <= (have := {plain(n) for n in field_names(row)}) and len(have) <= len(shown) + 1
    ]
    if not hits:
        return None, None
    best = max(hits, key=lambda hit: (len(common_part(plain(class_name), plain(hit[0]))), -len(hit[0])))
    alike = 2 * len(common_part(plain(class_name), plain(best[0]))) >= len(plain(class_name))
    return best if alike else (None, None)


def common_part(a: str, b: str) -> str:
    """The longest substring of `a` that is in `b`."""
    pieces = (a[i:j] for i in range(len(a)) for j in range(i + 1, len(a) + 1))
    return max((p for p in pieces if p in b), key=len, default="")


def find_record(facts: Facts, name: str) -> Row | None:
    for _ in range(8):
        if name in facts["structs"]:
            found: Row = facts["structs"][name]
            return found
        if name not in facts["typedefs"]:
            return None
        name = facts["typedefs"][name]["type"].split(" ")[-1]
    return None
