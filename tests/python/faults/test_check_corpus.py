# SPDX-License-Identifier: Apache-2.0
"""Correct programs run with all checks enabled without reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from child import ON_GPU

FILES = sorted((Path(__file__).parents[1] / "ptx").glob("test_*_kernels.py"))


@pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_correct_programs_are_not_reported() -> None:
    """CUB, cooperative groups, libcu++, locks, look-back: a report is a fault, which fails the program's own test.

    Exception: CUB's warp scan reads uninitialized shared memory and discards the value.
    """
    assert len(FILES) >= 6
    # Random programs run in modes of their own, with all checks too: the variables below would change nothing.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not test_random_programs", *FILES],
        env=os.environ | {"CUCORE_CHECK": "all", "CUCORE_CHECK_SUPPRESS": "init:warps"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
