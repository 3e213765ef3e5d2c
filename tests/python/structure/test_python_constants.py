# SPDX-License-Identifier: Apache-2.0
"""Python modules take the driver's numbers from the rendered header, by name: _core.CU_... (src/python/core/constants.cpp)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CORE = ROOT / "python" / "cuda" / "core"
# Numbers that are not the driver's.
OWN = {
    "_strided.py": "codes of DLPack and of array interfaces",
}


def used() -> set[str]:
    return {name for path in CORE.rglob("*.py") for name in re.findall(r"_core\.(CU[A-Z]*_\w+)", path.read_text())}


def test_no_module_assigns_numbers_to_constants() -> None:
    found = [
        f"{path.relative_to(CORE)}: {line}"
        for path in sorted(CORE.rglob("*.py"))
        if str(path.relative_to(CORE)) not in OWN and "system" not in path.parts
        for line in re.findall(r"^_[A-Z][A-Z_, ]* = -?\d.*$", path.read_text(), re.M)
    ]
    assert found == []


def test_every_bound_constant_is_used_and_in_the_stub() -> None:
    bound = re.findall(r"CUCORE_CONSTANT\((\w+)\);", (ROOT / "src/python/core/constants.cpp").read_text())
    stub = re.findall(r"^(CU[A-Z]*_\w+): int$", (CORE / "_core.pyi").read_text(), re.M)
    attributes = {name for name in bound if name.startswith("CU_FUNC_ATTRIBUTE_")}  # by the name of the property
    assert used() | attributes == set(bound) == set(stub)
