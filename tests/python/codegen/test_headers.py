# SPDX-License-Identifier: Apache-2.0
"""Every class, function, method and field of the public headers has a comment above it or on its line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cucore
import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADERS = sorted((ROOT / "include/cucore").glob("*.hpp"))
RENDERED = Path(cucore.__file__).resolve().parent / "include"  # installed headers, including the rendered ones
# Each field is the compiler or linker option of the same name, documented once above the struct.
BY_NAME = {"ProgramOptions", "LinkerOptions"}


def system_folders() -> list[str]:
    said = subprocess.run(
        ["c++", "-E", "-x", "c++", "-", "-v"], input="", capture_output=True, text=True, check=True
    ).stderr
    inside = said.split("search starts here:")[-1].split("End of search list.")[0]
    return [flag for line in inside.splitlines() if line.strip() for flag in ("-isystem", line.strip())]


def is_documented(lines: list[str], first: int, last: int) -> bool:
    """True if a comment ends above the first line (or above an earlier overload), or is at the end of one of the lines."""
    if any("///<" in line for line in lines[first - 1 : last + 1]):
        return True
    above = first - 2
    while above >= 0 and re.match(r"\s*(template|requires|\[\[nodiscard\]\])[^;{]*$", lines[above]):
        above -= 1
    return lines[above].strip().startswith("//")


@pytest.fixture(scope="module")
def unit() -> Any:
    """All headers in one libclang translation unit."""
    ci: Any = pytest.importorskip("clang.cindex")
    flags = ["-std=c++20", f"-I{ROOT / 'include'}", f"-I{RENDERED}", f"-I{RENDERED / 'cucore'}", *system_folders()]
    text = "".join(f'#include "{header}"\n' for header in HEADERS)
    unit = ci.Index.create().parse("all.cpp", args=flags, unsaved_files=[("all.cpp", text)])
    wrong = [str(d) for d in unit.diagnostics if d.severity >= ci.Diagnostic.Error]
    assert not wrong, wrong
    return unit


def undocumented(unit: Any, header: Path) -> Iterator[str]:
    ci: Any = pytest.importorskip("clang.cindex")
    kinds = ci.CursorKind
    needs = {
        kinds.CLASS_DECL, kinds.STRUCT_DECL, kinds.ENUM_DECL, kinds.FUNCTION_DECL, kinds.FUNCTION_TEMPLATE, kinds.CXX_METHOD,
        kinds.CONSTRUCTOR, kinds.FIELD_DECL, kinds.CLASS_TEMPLATE, kinds.CONCEPT_DECL,
    }  # fmt: skip
    hidden = (ci.AccessSpecifier.PRIVATE, ci.AccessSpecifier.PROTECTED)
    lines = header.read_text().splitlines()

    def walk(cursor: Any, known: set[str]) -> Iterator[str]:
        for item in cursor.get_children():
            if item.location.file is None or item.location.file.name != str(header):
                continue
            if item.kind == kinds.NAMESPACE:
                if item.spelling != "detail":
                    yield from walk(item, set())
                continue
            if item.kind not in needs or item.access_specifier in hidden or item.is_move_assignment_operator_method():
                continue
            first, last = item.extent.start.line, item.extent.end.line
            text = "\n".join(lines[first - 1 : last])
            special = item.kind == kinds.CONSTRUCTOR and (item.is_copy_constructor() or item.is_move_constructor())
            declared = item.kind in (kinds.CLASS_DECL, kinds.STRUCT_DECL) and not item.is_definition()
            overrides = " override" in text or "operator=" in text
            by_name = cursor.spelling in BY_NAME and item.kind == kinds.FIELD_DECL
            if not (special or declared or overrides or by_name):
                # The comment of a function also documents the overloads that follow it.
                if is_documented(lines, first, last):
                    known.add(item.spelling)
                elif item.spelling not in known:
                    yield f"{header.name}:{first}: {cursor.spelling}::{item.spelling}"
            if item.kind in (kinds.CLASS_DECL, kinds.STRUCT_DECL, kinds.CLASS_TEMPLATE):
                yield from walk(item, set())

    yield from walk(unit.cursor, set())


@pytest.mark.skipif(not RENDERED.exists(), reason="the headers are not installed")
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_every_public_declaration_is_documented(unit: Any, header: Path) -> None:
    assert list(undocumented(unit, header)) == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_header_begins_with_its_name_and_purpose(header: Path) -> None:
    license_line, first = header.read_text().splitlines()[:2]
    assert license_line == "// SPDX-License-Identifier: Apache-2.0"
    assert first.startswith(f"// cucore/{header.name}: ") or header.name == "export.hpp"
