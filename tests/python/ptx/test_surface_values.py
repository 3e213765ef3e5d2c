"""Surface loads, stores and reductions answer what an H200 answered: every form, inside and outside of the surface (surface_values.py)."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from surface_values import Case, answer, cases, load

RECORDED = load(Path(__file__).parents[2] / "ptx/h200/surfaces.xz")
CASES = list(cases())
OPERATIONS = {
    key: list(found) for key, found in itertools.groupby(sorted(CASES, key=lambda c: c.op), key=lambda c: c.op)
}


def test_every_case_is_recorded() -> None:
    assert {case.name for case in CASES} == set(RECORDED)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_accesses(operation: str) -> None:
    found: list[Case] = OPERATIONS[operation]
    wrong = [case.name for case in found if answer(case) != RECORDED[case.name]]
    assert not wrong, "\n".join(wrong)
