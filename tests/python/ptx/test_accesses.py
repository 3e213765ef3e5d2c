"""Loads, stores, atomics, fences and prefetches with every combination of qualifiers: refused is what ptxas refuses."""

from __future__ import annotations

import os
import re

import pytest
from ptxsuite import accesses
from ptxsuite.device import DriverError
from ptxsuite.program import device

pytestmark = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's reader")

LINES, REFUSED = accesses.lines(), accesses.refused()
PARTS = 16


def wrong(lines: list[str]) -> set[int]:
    """Of which of these lines the CPU device says that they are wrong."""
    found: set[int] = set()
    left = list(range(len(lines)))
    while left:
        try:
            device().unload(device().load(accesses.module([lines[k] for k in left]).encode()))
            break
        except DriverError as error:
            numbers = {int(n) - accesses.FIRST_LINE for n in re.findall(r":(\d+):\d+: error: ", error.log)}
            assert numbers, error.log
            found |= {left[n] for n in numbers}
            left = [k for n, k in enumerate(left) if n not in numbers]
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_what_ptxas_takes_is_taken(part: int) -> None:
    lines = [line for line, bad in zip(LINES, REFUSED, strict=True) if not bad][part::PARTS]
    assert [lines[k] for k in sorted(wrong(lines))] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_what_ptxas_refuses_is_refused(part: int) -> None:
    lines = [line for line, bad in zip(LINES, REFUSED, strict=True) if bad][part::PARTS]
    assert [lines[k] for k in sorted(set(range(len(lines))) - wrong(lines))] == []
