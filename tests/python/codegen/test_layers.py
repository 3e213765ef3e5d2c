# SPDX-License-Identifier: Apache-2.0
"""Dependencies between layers: public headers include neither Python nor LLVM, lower layers include no higher ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
PYTHON = r"Python\.h|nanobind/.*|python/.*|pybind.*"
LLVM = r"llvm.*|clang/.*"
# folder: pattern of headers that its files must not include
FORBIDDEN = {
    "include/cucore": rf"{PYTHON}|{LLVM}|core/.*|driver/.*|cpu/.*",
    "src/driver": rf"{PYTHON}|{LLVM}|core/.*|runtime/.*|cpu/.*",
    "src/core": rf"{PYTHON}|{LLVM}|cpu/.*",
    "src/runtime": rf"{PYTHON}|{LLVM}|cpu/.*",
    "src/python": rf"{LLVM}|cpu/.*",
    "cpu": rf"{PYTHON}|cucore/(?!abi/|container\.hpp).*\.hpp",
}


def includes(folder: str) -> list[tuple[str, str]]:
    files = [f for f in sorted((ROOT / folder).rglob("*")) if f.suffix in (".hpp", ".cpp", ".h")]
    return [(str(f.relative_to(ROOT)), name) for f in files for name in INCLUDE.findall(f.read_text())]


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_layer_includes_no_header_of_a_higher_layer(folder: str) -> None:
    found = includes(folder)
    assert found
    assert [pair for pair in found if re.fullmatch(FORBIDDEN[folder], pair[1])] == []
