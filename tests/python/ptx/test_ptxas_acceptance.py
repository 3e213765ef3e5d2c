# SPDX-License-Identifier: Apache-2.0
"""Combinations of modifiers, types and register sizes are rejected if and only if ptxas rejects them: loads, stores, atomics, fences, prefetches,
arithmetic instructions, barriers, asynchronous copies and matrix instructions."""

from __future__ import annotations

import os
import re

import pytest
from ptxsuite import accesses, asynchronous, ptxas_record, scalars
from ptxsuite.device import DriverError
from ptxsuite.program import device

pytestmark = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's reader")

LINES = {"accesses": accesses.lines(), "scalars": scalars.lines(), "asynchronous": asynchronous.lines()}
PARTS = 16


def lines_of(kind: str, part: int, bad: bool) -> list[str]:
    """One part (of PARTS) of the lines that ptxas rejects or accepts."""
    lines = LINES[kind]
    return [line for line, no in zip(lines, ptxas_record.rejected(kind, lines), strict=True) if no == bad][part::PARTS]


@pytest.fixture(autouse=True)
def _arch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", {"sm_90": "9.0", "sm_100a": "10.0"}[ptxas_record.TARGETS[kind]])


def wrong(lines: list[str], target: str) -> set[int]:
    """The indices of the lines that the CPU device rejects."""
    found: set[int] = set()
    left = list(range(len(lines)))
    while left:
        try:
            device().unload(device().load(ptxas_record.module([lines[k] for k in left], target).encode()))
            break
        except DriverError as error:
            numbers = {int(n) - ptxas_record.FIRST_LINE for n in re.findall(r":(\d+):\d+: error: ", error.log)}
            assert numbers, error.log
            found |= {left[n] for n in numbers}
            left = [k for n, k in enumerate(left) if n not in numbers]
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", LINES)
def test_lines_that_ptxas_accepts_are_accepted(kind: str, part: int) -> None:
    lines = lines_of(kind, part, bad=False)
    assert [lines[k] for k in sorted(wrong(lines, ptxas_record.TARGETS[kind]))] == []


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", LINES)
def test_lines_that_ptxas_rejects_are_rejected(kind: str, part: int) -> None:
    lines = lines_of(kind, part, bad=True)
    assert [lines[k] for k in sorted(set(range(len(lines))) - wrong(lines, ptxas_record.TARGETS[kind]))] == []
