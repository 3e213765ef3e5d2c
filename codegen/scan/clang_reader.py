# SPDX-License-Identifier: Apache-2.0
"""Reads declarations of one translation unit into plain dictionaries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clang import cindex  # type: ignore[import-untyped]
from clang.cindex import Cursor, CursorKind, TypeKind  # type: ignore[import-untyped]

Row = dict[str, Any]


@dataclass
class Unit:
    """The declarations of one translation unit."""

    functions: dict[str, Row] = field(default_factory=dict)
    structs: dict[str, Row] = field(default_factory=dict)
    enums: dict[str, Row] = field(default_factory=dict)
    typedefs: dict[str, Row] = field(default_factory=dict)
    macros: dict[str, list[str]] = field(default_factory=dict)
    header_of: dict[str, str] = field(default_factory=dict)  # name -> header that declares it

    def sections(self) -> list[dict[str, Any]]:
        return [self.functions, self.structs, self.enums, self.typedefs, self.macros]


def tidy(spelling: str) -> str:
    """Normalizes a type spelling: 'T *', 'const T *', 'T[4]', 'R (*)(A, B)'."""
    spelling = re.sub(r"\s+", " ", spelling)
    spelling = re.sub(r"\bloff_t\b", "int64_t", spelling)  # not a type of strict C
    return spelling.replace("_Bool", "bool").strip()


class Reader:
    def __init__(self, source: str, arguments: list[str], wanted: set[str]) -> None:
        self.wanted = wanted
        index = cindex.Index.create()
        options = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        self.tu = index.parse("scan.c", args=arguments, unsaved_files=[("scan.c", source)], options=options)
        errors = [d for d in self.tu.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise RuntimeError("\n".join(str(e) for e in errors))

    def read(self) -> Unit:
        unit = Unit()
        for cursor in self.tu.cursor.get_children():
            if cursor.location.file is None:
                continue
            header = Path(cursor.location.file.name).name
            if header in self.wanted:
                before = {id(s): set(s) for s in unit.sections()}
                self._take(unit, cursor)
                for section in unit.sections():
                    for name in set(section) - before[id(section)]:
                        unit.header_of[name] = header
        return unit

    def _take(self, unit: Unit, cursor: Cursor) -> None:
        kind = cursor.kind
        if kind == CursorKind.FUNCTION_DECL:
            if not cursor.is_definition():
                unit.functions[cursor.spelling] = function_row(cursor)
        elif kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
            if cursor.is_definition() and not is_unnamed(cursor):
                unit.structs[cursor.spelling] = record_row(cursor)
        elif kind == CursorKind.ENUM_DECL:
            if cursor.is_definition() and not is_unnamed(cursor):
                unit.enums[cursor.spelling] = enum_row(cursor)
            elif cursor.is_definition() and "unnamed" in cursor.type.spelling:
                for value in enum_row(cursor)["values"]:
                    unit.enums.setdefault("", {"values": []})["values"].append(value)
        elif kind == CursorKind.TYPEDEF_DECL:
            self._take_typedef(unit, cursor)
        elif kind == CursorKind.MACRO_DEFINITION:
            tokens = [t.spelling for t in cursor.get_tokens()]
            if len(tokens) > 1 and not conf_is_function_like(cursor):
                unit.macros[tokens[0]] = tokens[1:]

    def _take_typedef(self, unit: Unit, cursor: Cursor) -> None:
        """A typedef of an unnamed struct, union or enum defines it under the typedef's name."""
        underlying = cursor.underlying_typedef_type
        declaration = underlying.get_declaration()
        if is_unnamed(declaration) and underlying.kind in (TypeKind.ELABORATED, TypeKind.RECORD, TypeKind.ENUM):
            if declaration.kind == CursorKind.ENUM_DECL:
                row = enum_row(declaration)
                unit.enums[cursor.spelling] = {**row, "typedef_only": True}
                anonymous = unit.enums.get("", {"values": []})["values"]
                for value in row["values"]:
                    if value in anonymous:
                        anonymous.remove(value)
            else:
                unit.structs[cursor.spelling] = {**record_row(declaration), "typedef_only": True}
            return
        row = {"type": tidy(underlying.spelling)}
        names = callback_names(cursor)
        if names:
            row["params"] = names
        unit.typedefs[cursor.spelling] = row


def conf_is_function_like(cursor: Cursor) -> bool:
    return bool(cindex.conf.lib.clang_Cursor_isMacroFunctionLike(cursor))


def is_unnamed(cursor: Cursor) -> bool:
    spelling = cursor.spelling
    return not spelling or "(unnamed" in spelling or "(anonymous" in spelling or cursor.is_anonymous()


def callback_names(cursor: Cursor) -> list[str]:
    """Parameter names of a function pointer typedef, which document the callback's arguments."""
    if "(*" not in cursor.underlying_typedef_type.spelling:
        return []
    return [c.spelling for c in cursor.get_children() if c.kind == CursorKind.PARM_DECL]


def function_row(cursor: Cursor) -> Row:
    row: Row = {}
    if cursor.result_type.spelling != "CUresult":
        row["returns"] = tidy(cursor.result_type.spelling)
    row["params"] = [[a.spelling, tidy(a.type.spelling)] for a in cursor.get_arguments()]
    if cursor.availability == cindex.AvailabilityKind.DEPRECATED:
        row["deprecated"] = True
    return row


def enum_row(cursor: Cursor) -> Row:
    values = [[c.spelling, c.enum_value] for c in cursor.get_children() if c.kind == CursorKind.ENUM_CONSTANT_DECL]
    unsigned = cursor.enum_type.spelling == "unsigned int" and any(v > 0x7FFFFFFF for _, v in values)
    row: Row = {"values": values}
    if unsigned:
        row["unsigned"] = True
    return row


def record_row(cursor: Cursor) -> Row:
    record_type = cursor.type
    row: Row = {
        "kind": "union" if cursor.kind == CursorKind.UNION_DECL else "struct",
        "size": record_type.get_size(),
        "align": record_type.get_align(),
    }
    explicit = explicit_alignment(cursor)
    if any(child.kind == CursorKind.PACKED_ATTR for child in cursor.get_children()):
        row["packed"] = True
    elif explicit:
        row["alignas"] = explicit
    row["fields"] = fields_of(cursor)
    return row


def explicit_alignment(cursor: Cursor) -> int:
    natural = 1
    for item in cursor.type.get_fields():
        natural = max(natural, item.type.get_align())
    return int(cursor.type.get_align()) if cursor.type.get_align() > natural else 0


def fields_of(cursor: Cursor) -> list[Row]:
    """Fields in order. A member whose record is defined in place includes it; an anonymous member has the name ''."""
    rows: list[Row] = []
    base = cursor.type
    for item in cursor.type.get_fields():
        declaration = element_declaration(item)
        nested = (
            declaration.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL)
            and declaration.is_definition()
            and declaration.lexical_parent == cursor
        )
        name = "" if "(" in item.spelling else item.spelling
        row: Row = {"name": name, "offset": item.get_field_offsetof() // 8}
        if nested:
            row["record"] = record_row(declaration)
            if not is_unnamed(declaration):
                row["record"] = {"tag": declaration.spelling, **row["record"]}
            suffix = re.findall(r"\[\d+\]", item.type.spelling)
            if suffix:
                row["array"] = [int(s[1:-1]) for s in suffix]
        else:
            row["type"] = tidy(item.type.spelling)
        if item.is_bitfield():
            row["bits"] = item.get_bitfield_width()
            row["bit_offset"] = item.get_field_offsetof() % 8
        if row["offset"] < 0:
            raise RuntimeError(f"no offset for {base.spelling}.{name}")
        rows.append(row)
    return rows


def element_declaration(item: Cursor) -> Cursor:
    item_type = item.type
    while item_type.kind in (TypeKind.CONSTANTARRAY,):
        item_type = item_type.element_type
    return item_type.get_declaration()


def evaluate_macros(names: list[str], headers: str, arguments: list[str]) -> dict[str, int]:
    """The value of each integer macro, evaluated by the compiler; unsigned if the macro is."""
    values = evaluate({n: f"(long long)({n})" for n in names}, headers, arguments)
    signed = evaluate({n: f"({n}) < 0" for n, v in values.items() if v < 0}, headers, arguments)
    return {n: v + (1 << 64) if signed.get(n) == 0 else v for n, v in values.items()}


def evaluate(expressions: dict[str, str], headers: str, arguments: list[str]) -> dict[str, int]:
    """Values of integer constant expressions, evaluated as enumerators. Expressions that do not compile are skipped."""
    if not expressions:
        return {}
    index = cindex.Index.create()
    names = list(expressions)
    lines = headers.splitlines()
    source = "\n".join([*lines, *(f"enum {{ cucore_value_{n} = {expressions[n]} }};" for n in names)])
    tu = index.parse("scan.c", args=arguments, unsaved_files=[("scan.c", source)])
    bad = {d.location.line - len(lines) - 1 for d in tu.diagnostics if d.severity >= cindex.Diagnostic.Error}
    if bad:
        return evaluate({n: expressions[n] for i, n in enumerate(names) if i not in bad}, headers, arguments)
    known: dict[str, int] = {}
    for cursor in tu.cursor.get_children():
        if cursor.kind == CursorKind.ENUM_DECL:
            for value in cursor.get_children():
                if value.spelling.startswith("cucore_value_"):
                    known[value.spelling.removeprefix("cucore_value_")] = value.enum_value
    return known
