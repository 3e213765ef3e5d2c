# SPDX-License-Identifier: Apache-2.0
"""C declarations from the type spellings of api/: 'char[16]' and 'b' become 'char b[16]'."""

from __future__ import annotations

import re
from collections.abc import Iterator

from facts import Enum, Field, Library, Record, Typedef

WORD = re.compile(r"[A-Za-z_]\w*")


def declare(type_: str, name: str) -> str:
    """A C declaration of `name` with the type `type_`; an empty name yields the type."""
    if "(*" in type_:  # a function pointer, or an array of or pointer to function pointers
        head, tail = type_.split("(*", 1)
        return f"{head}(*{name}{tail}" if not tail.startswith("const)") else f"{head}(*const {name}{tail[5:]}"
    match = re.fullmatch(r"(.*?) ?(\([^*].*\))", type_)
    if match:  # a function type, as in a typedef of a function
        return f"{match[1]} {name}{match[2]}"
    match = re.search(r"\s*((?:\[\d*\])+)$", type_)
    if match:
        return f"{declare(type_[: match.start()], name)}{match[1]}"
    if not name:
        return type_
    return f"{type_}{name}" if type_.endswith("*") else f"{type_} {name}"


def record_lines(record: Record, indent: str = "  ") -> Iterator[str]:
    """The body of a struct or union, one line per field."""
    for index, item in enumerate(record.fields):
        aligned = f"CUCORE_ABI_ALIGNAS({record.alignas}) " if record.alignas and index == 0 else ""
        if item.record is None:
            bits = f" : {item.bits}" if item.bits else ""
            yield f"{indent}{aligned}{declare(item.type, item.name)}{bits};"
        else:
            tag = f" {item.record.name}" if item.record.name else ""
            yield f"{indent}{aligned}{item.record.kind}{tag} {{"
            yield from record_lines(item.record, indent + "  ")
            extents = "".join(f"[{n}]" for n in item.array)
            yield f"{indent}}}{' ' + item.name if item.name else ''}{extents};"


def identifiers_of_fields(fields: tuple[Field, ...]) -> Iterator[str]:
    for item in fields:
        if item.record is None:
            yield from WORD.findall(item.type)
        else:
            yield from identifiers_of_fields(item.record.fields)


def sort_by_dependency(library: Library) -> Iterator[Record | Enum | Typedef]:
    """Sorts types so that each follows the types that it uses. Sorted by name first, so the order is stable."""
    items: dict[str, list[Record | Enum | Typedef]] = {}
    for group in (library.enums, library.typedefs, library.records):
        for name, item in group.items():
            items.setdefault(name, []).append(item)
    done: set[int] = set()
    result: list[Record | Enum | Typedef] = []

    def visit(item: Record | Enum | Typedef) -> None:
        if id(item) in done:
            return
        done.add(id(item))
        for word, by_tag in used_names(item):
            for other in items.get(word, ()):
                # 'struct X *' needs no definition of X, so a pointer typedef must not depend on one.
                if other is item or (by_tag and not needs_definition(item, word)):
                    continue
                visit(other)
        result.append(item)

    for name in sorted(items):
        for item in items[name]:
            visit(item)
    yield from result


def used_names(item: Record | Enum | Typedef) -> Iterator[tuple[str, bool]]:
    """Names that an item uses, and whether it uses them as tags ('struct X')."""
    if isinstance(item, Enum):
        return
    texts = [item.type] if isinstance(item, Typedef) else list(field_types(item.fields))
    for text in texts:
        tags = set(re.findall(r"(?:struct|union|enum) (\w+)", text))
        for word in WORD.findall(text):
            yield word, word in tags


def field_types(fields: tuple[Field, ...]) -> Iterator[str]:
    for item in fields:
        if item.record is None:
            yield item.type
        else:
            yield from field_types(item.record.fields)


def needs_definition(item: Record | Enum | Typedef, tag: str) -> bool:
    """True if the tag is used by value."""
    texts = [item.type] if isinstance(item, Typedef) else list(field_types(getattr(item, "fields", ())))
    if isinstance(item, Typedef) and "*" not in item.type:
        return True  # a typedef name may be used by value
    return any(re.search(rf"(?:struct|union|enum) {tag}\b(?! *(?:const)? *\*)", t) for t in texts)
