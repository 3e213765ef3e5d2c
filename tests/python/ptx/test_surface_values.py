# SPDX-License-Identifier: Apache-2.0
"""Surface loads, stores and reductions match the recording of an H200: every form, inside and outside the surface (surface_values.py)."""

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
def test_surface_accesses_match_the_recording(operation: str) -> None:
    found: list[Case] = OPERATIONS[operation]
    wrong = [case.name for case in found if answer(case) != RECORDED[case.name]]
    assert not wrong, "\n".join(wrong)


def test_faulting_surface_accesses_match_the_recording() -> None:
    """An access outside with .trap is error 700, a misaligned one 716; each runs in a separate process."""
    recorded, ends = load(Path(__file__).parents[2] / "ptx/h200/surface_traps.xz"), list(traps())
    assert len(ends) == 18
    found = dict(zip((trap_name(*end) for end in ends), collect(list(ends)), strict=True))
    assert found == {name: recorded[name] for name in found}


def test_surface_queries_match_the_recording() -> None:
    """Queries that an H200's driver rejects (array_size, formats) may succeed on the CPU device."""
    recorded = load(Path(__file__).parents[2] / "ptx/h200/surface_traps.xz")
    told = {name: size for name, size in recorded.items() if name[:3] in ("suq", "txq") and not size.startswith("text")}
    assert len(told) == 180
    found = queries()
    assert {name: found[name] for name in told} == told
