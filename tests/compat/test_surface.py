# SPDX-License-Identifier: Apache-2.0
"""The installed packages have the names, arguments, values and members of NVIDIA's."""

from __future__ import annotations

from pathlib import Path

import installed
import pytest
from factfile import Facts, read_facts

HERE = Path(__file__).resolve().parent
DEVIATIONS = read_facts(HERE.parent.parent / "api" / "deviations.json")  # intended differences


def excused(module: str) -> Facts:
    """Deviations of the tables and of the Python surface."""
    return {**DEVIATIONS.get(module, {}), **DEVIATIONS.get(f"{module} surface", {})}


@pytest.mark.parametrize("module", installed.modules())
def test_module_has_every_name_of_the_surface(module: str) -> None:
    known = excused(module)
    if module in known:
        pytest.skip(f"{module}: {known[module]}")
    absent = installed.absent(module)
    for name in absent:
        if name in known:
            print(f"{module}: {name}: {known[name]}")
    unexcused = [name for name in absent if name not in known]
    assert unexcused == [], f"{len(unexcused)} names of {module} are missing: {', '.join(unexcused[:20])}"


def test_missing_name_is_detected() -> None:
    class Module:
        class Color:
            RED = 1

        @staticmethod
        def paint(wall: str) -> None: ...

    facts = {
        "functions": {"paint": "(wall, color)", "wash": "()"},
        "enums": {"Color": {"RED": 1, "BLUE": 2}},
        "classes": {
            "Brush": {"properties": ["width"], "methods": []},
            "Color": {"properties": ["name"], "methods": []},
        },
        "constants": {"COATS": 2},
    }
    assert list(installed.functions(Module, facts)) == ["paint(color)", "wash"]
    assert list(installed.enums(Module, facts)) == ["Color.BLUE"]
    assert list(installed.classes(Module, facts)) == ["Brush", "Color.name"]
    assert list(installed.constants(Module, facts)) == ["COATS"]
