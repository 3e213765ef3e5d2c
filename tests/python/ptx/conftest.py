# SPDX-License-Identifier: Apache-2.0
"""Makes the package ptxsuite importable, and provides fixtures that set the number of lanes of the CPU device."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

WIDTHS = ("1", "4", "8", "16", "32", "baseline")  # 1 is the scalar path, baseline the baseline tier


def set_width(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the width of modules that are loaded from now on; skips the test on a GPU, which has no such setting."""
    if os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("the number of lanes is a setting of the CPU device")
    if width == "baseline":
        monkeypatch.setenv("CUCORE_CPU_TIER", "baseline")
    else:
        monkeypatch.setenv("CUCORE_CPU_W", width)


@pytest.fixture
def generated_code() -> None:
    """Skips a test of the code that the CPU device generates on a GPU."""
    if os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("about code of the CPU device")


@pytest.fixture(params=WIDTHS)
def forced_width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test once with every number of lanes, with the scalar path and with baseline code."""
    set_width(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture(params=("default", *WIDTHS))
def any_width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As forced_width, and once with the width that the device chooses; on a GPU only the latter runs."""
    if request.param != "default":
        set_width(request.param, monkeypatch)
    return str(request.param)
