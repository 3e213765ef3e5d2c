# SPDX-License-Identifier: Apache-2.0
"""cuda.bindings: order and defaults of arguments, enum values, base classes and struct fields match NVIDIA's."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from compare import NOT_API, same_value
from factfile import Facts, read_facts
from scan.surface import parse_signature

HERE = Path(__file__).resolve().parent
MODULES = ("driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile")
C_STYLE = ("driver", "runtime", "nvrtc")
DEVIATIONS = read_facts(HERE.parent.parent / "api" / "deviations.json")


def deviations(name: str) -> Facts:
    return {**DEVIATIONS.get(name, {}), **DEVIATIONS.get(f"{name} surface", {})}


@pytest.fixture(params=MODULES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Facts, Facts]:
    name = f"cuda.bindings.{request.param}"
    return importlib.import_module(name), read_facts(HERE / "facts" / f"{name}.json"), deviations(name)


def test_arguments_have_the_order_and_defaults_of_nvidias(pair: tuple[Any, Facts, Facts]) -> None:
    module, facts, known = pair
    wrong = []
    for name, signature in facts["functions"].items():
        if name in NOT_API or name in known or not inspect.isbuiltin(getattr(module, name)):
            continue
        ours = inspect.signature(getattr(module, name)).parameters.values()
        theirs = parse_signature(signature)
        if [p.name for p in ours] != [a.name for a in theirs]:
            wrong.append(f"{name}{tuple(p.name for p in ours)} is not {name}{signature}")
        elif [p.default is not p.empty for p in ours] != ["=" in part for part in defaults(signature, len(theirs))]:
            wrong.append(f"{name}: defaults")
    assert wrong == []


def defaults(signature: str, count: int) -> list[str]:
    """The arguments of a signature as text; annotations contain no '='."""
    parts = signature.strip("()").split(", ") if count else []
    return parts if len(parts) == count else [""] * count


def test_enum_members_have_the_values_of_nvidias(pair: tuple[Any, Facts, Facts]) -> None:
    module, facts, known = pair
    wrong = []
    for name, members in facts["enums"].items():
        enum = getattr(module, name, None)
        for member, value in members.items():
            if f"{name}.{member}" in known or name in known:
                continue
            if not same_value(int(getattr(enum, member)), value):
                wrong.append(f"{name}.{member}")
    assert wrong == []


@pytest.mark.parametrize("library", C_STYLE)
def test_classes_have_the_bases_of_nvidias(library: str) -> None:
    name = f"cuda.bindings.{library}"
    module, facts, known = (
        importlib.import_module(name),
        read_facts(HERE / "facts" / f"{name}.json"),
        deviations(name),
    )
    wrong = []
    for cls, row in facts["classes"].items():
        if cls in known:
            continue
        ours = [base.__name__ for base in getattr(module, cls).__mro__]
        wrong += [f"{cls} does not derive from {base}" for base in row["bases"] if base not in ours]
    assert wrong == []


@pytest.mark.parametrize("library", C_STYLE)
def test_every_field_keeps_its_value_when_assigned_to_itself(library: str) -> None:
    """A field can be assigned its own value and then returns the same value."""
    name = f"cuda.bindings.{library}"
    module, facts, known = (
        importlib.import_module(name),
        read_facts(HERE / "facts" / f"{name}.json"),
        deviations(name),
    )
    for cls, row in facts["classes"].items():
        if cls in known or not row["properties"] or not hasattr(module, cls):
            continue
        record = getattr(module, cls)()
        for field in row["properties"]:
            if f"{cls}.{field}" in known:
                continue
            before = getattr(record, field)
            setattr(record, field, before)
            assert repr(getattr(record, field)) == repr(before), f"{cls}.{field}"
