"""Surface loads, stores and reductions answer what an H200 answered: every form, inside and outside of the surface (surface_values.py)."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from surface_values import Case, answer, cases, collect, load, queries, trap_name, traps

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


def test_accesses_that_end_a_context() -> None:
    """Outside with .trap is 700, off the access's own alignment 716; each in a process of its own."""
    recorded, ends = load(Path(__file__).parents[2] / "ptx/h200/surface_traps.xz"), list(traps())
    assert len(ends) == 18
    found = dict(zip((trap_name(*end) for end in ends), collect(list(ends)), strict=True))
    assert found == {name: recorded[name] for name in found}


def test_sizes_are_those_a_gpu_tells() -> None:
    """What an H200's driver does not load (array_size, formats) is asked of the CPU device in vain, or has an answer there."""
    recorded = load(Path(__file__).parents[2] / "ptx/h200/surface_traps.xz")
    told = {name: size for name, size in recorded.items() if name[:3] in ("suq", "txq") and not size.startswith("text")}
    assert len(told) == 180
    found = queries()
    assert {name: found[name] for name in told} == told
