# SPDX-License-Identifier: Apache-2.0
"""Locates the built test doubles of libraries that need hardware."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def folder() -> Path:
    """The folder with libcufile.so.0 and libnvidia-ml.so.1 of tests/doubles; skips the test if they are not built."""
    builds = [Path(os.environ["CUCORE_BUILD"])] if "CUCORE_BUILD" in os.environ else sorted(ROOT.glob("build/*"))
    for build in builds:
        if (build / "tests/doubles/libcufile.so.0").exists():
            return build / "tests/doubles"
    pytest.skip("tests/doubles is not built (CUCORE_TESTS)")


def path() -> str:
    """LD_LIBRARY_PATH with that folder prepended; the CPU device may need the existing entries."""
    return os.pathsep.join(filter(None, (str(folder()), os.environ.get("LD_LIBRARY_PATH"))))
