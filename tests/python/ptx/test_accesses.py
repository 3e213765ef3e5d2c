"""Every combination of modifiers, types and sizes of registers: refused is what ptxas refuses. Of loads, stores, atomics, fences and prefetches,
and of what computes."""

from __future__ import annotations

import os
import re

import pytest
from ptxsuite import accesses, asked, scalars
from ptxsuite.device import DriverError
from ptxsuite.program import device

pytestmark = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's reader")

LINES = {"accesses": accesses.lines(), "scalars": scalars.lines()}
PARTS = 16


def lines_of(kind: str, part: int, bad: bool) -> list[str]:
    """Every sixteenth of those that ptxas refuses or takes."""
    lines = LINES[kind]
    return [line for line, no in zip(lines, asked.refused(kind, lines), strict=True) if no == bad][part::PARTS]


def wrong(lines: list[str]) -> set[int]:
    """Of which of these lines the CPU device says that they are wrong."""
    found: set[int] = set()
    left = list(range(len(lines)))
    while left:
        try:
            device().unload(device().load(asked.module([lines[k] for k in left]).encode()))
            break
        except DriverError as error:
            numbers = {int(n) - asked.FIRST_LINE for n in re.findall(r":(\d+):\d+: error: ", error.log)}
            assert numbers, error.log
            found |= {left[n] for n in numbers}
            left = [k for n, k in enumerate(left) if n not in numbers]
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", LINES)
def test_what_ptxas_takes_is_taken(kind: str, part: int) -> None:
    lines = lines_of(kind, part, bad=False)
    assert [lines[k] for k in sorted(wrong(lines))] == []


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", LINES)
def test_what_ptxas_refuses_is_refused(kind: str, part: int) -> None:
    lines = lines_of(kind, part, bad=True)
    assert [lines[k] for k in sorted(set(range(len(lines))) - wrong(lines))] == []
