# SPDX-License-Identifier: Apache-2.0
"""Texture fetches match the recording of an H200: every shape, format, filter and address mode (texture_values.py)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

from texture_values import AS_INTEGER, SOURCE, SRGB, Case, answer, cases, level_cases, load, picture

FOLDER = Path(__file__).parents[2] / "ptx/h200"
RECORDED = load(FOLDER / "textures.xz") | load(FOLDER / "levels.xz")
CASES = [*cases(), *level_cases()]


@cache
def program() -> Program:
    return Program(SOURCE)


def test_every_case_is_recorded() -> None:
    assert {case.name for case in CASES} == set(RECORDED)


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_texture_fetches_match_the_recording(kind: str) -> None:
    wrong = [f"{case.name}: {text}" for case in CASES if case.kind == kind and (text := difference(case))]
    assert not wrong, "\n".join(wrong)


def difference(case: Case) -> str:
    """The differences, or "": integers must be equal, floats within a few units in the last place."""
    ours, theirs = answer(program(), case), RECORDED[case.name]
    if case.flags & AS_INTEGER:
        return "" if (ours == theirs).all() else f"{(ours != theirs).sum()} integers differ"
    texels = picture(case)
    largest = float(np.abs(texels).max()) if case.format[0] == "f" else 1.0
    error = np.abs(ours.view(np.float32).astype(np.float64) - theirs.view(np.float32)).max(axis=1)
    step = {"f16": 2**-10}.get(case.format, 2**-14 if case.format[0] in "us" and case.filter else 2**-20)
    if case.flags & SRGB:
        step = 2**-7  # the hardware's weights have eight significant bits
    off = np.flatnonzero(error > largest * step)
    return "" if len(off) == 0 else f"{len(off)} of {len(error)} differ, by up to {error.max()}"
