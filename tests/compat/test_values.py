# SPDX-License-Identifier: Apache-2.0
"""Objects that are neither functions nor classes, defaults of options and base classes are those of NVIDIA's packages."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from factfile import read_facts
from installed import FACTS, modules, same_member
from test_surface import excused

NOT_OURS = {"ctypes", "nvml"}  # what a module of NVIDIA's imports for itself
PYTHONS = {"StrEnum", "str", "ReprEnum", "Enum", "IntEnum", "ABC", "object"}


def others() -> list[tuple[str, str]]:
    rows = [(module, name) for module in modules() for name in read_facts(FACTS / f"{module}.json")["other"]]
    return [(module, name) for module, name in rows if name.removeprefix("module ") not in NOT_OURS]


@pytest.mark.parametrize(("module", "name"), others(), ids=[f"{m}.{n}" for m, n in others()])
def test_module_has_the_object(module: str, name: str) -> None:
    if name in excused(module):
        pytest.skip(excused(module)[name])
    if name.startswith("module "):
        assert importlib.import_module(f"{module}.{name.removeprefix('module ')}") is not None
    else:
        assert hasattr(importlib.import_module(module), name)


def defaults() -> Iterator[tuple[str, str, str, str]]:
    """(module, class, field, value) of every default that the facts tell."""
    for module in modules():
        for cls, row in read_facts(FACTS / f"{module}.json")["classes"].items():
            for line in row["methods"]:
                if match := re.match(r"(\w+) = (.+)$", line):
                    yield module, cls, match[1], match[2]


@pytest.mark.parametrize(
    ("module", "cls", "field", "value"), list(defaults()), ids=[f"{c}.{f}" for _, c, f, _ in defaults()]
)
def test_option_has_the_default_of_nvidias(module: str, cls: str, field: str, value: str) -> None:
    options: Any = getattr(importlib.import_module(module), cls)
    found = inspect.signature(options).parameters[field].default
    wanted = ast.literal_eval(value)
    assert same_member(found, wanted), f"{cls}.{field} is {found!r}, not {wanted!r}"


def bases() -> list[tuple[str, str, str]]:
    found = []
    for module in modules():
        if module.startswith("cuda.bindings"):
            continue  # test_bindings_surface.py
        for cls, row in read_facts(FACTS / f"{module}.json")["classes"].items():
            found += [(module, cls, base) for base in row["bases"] if base not in PYTHONS]
    return found


@pytest.mark.parametrize(("module", "cls", "base"), bases(), ids=[f"{c}({b})" for _, c, b in bases()])
def test_class_has_the_base_of_nvidias(module: str, cls: str, base: str) -> None:
    if f"{cls}({base})" in excused(module):
        pytest.skip(excused(module)[f"{cls}({base})"])
    owner = getattr(importlib.import_module(module), cls)
    assert base in [part.__name__ for part in owner.__mro__]
