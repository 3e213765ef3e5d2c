"""Makes the suite's own package importable, and the number of lanes a matter of tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(params=["1", "4", "8", "16", "32", "baseline"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces a number of lanes, the scalar path or the baseline tier of the CPU device.

    Read when a module is loaded; the environment of the process is what the library sees. Nothing to a GPU.
    """
    if request.param == "baseline":
        monkeypatch.setenv("CUCORE_CPU_TIER", "baseline")
    else:
        monkeypatch.setenv("CUCORE_CPU_W", request.param)
    return str(request.param)
