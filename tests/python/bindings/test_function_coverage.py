# SPDX-License-Identifier: Apache-2.0
"""Every function of every API is called by a Python test, or the list of exceptions contains it with a reason.

The test searches for `.name(` and `.name,` in the tests of the bindings; names in text do not count.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

GRAPHICS = (
    "needs a graphics driver that shares memory with the device; without one, drivers may crash on what they are given"
)
EXCEPTIONS = {
    "driver": {
        "cuEGL*": GRAPHICS, "cuEventCreateFromEGLSync": GRAPHICS, "cuGL*": GRAPHICS, "cuGraphics*": GRAPHICS, "cuVDPAU*": GRAPHICS,
        "cuDeviceGetNvSciSyncAttributes": "NvSciSync exists on NVIDIA's embedded boards only",
        "cuStream*CaptureToCig": "captures into a command list of a graphics API",
        "cuCheckpointOperationComplete": "ends a checkpoint into storage of the program's own, which no device here has",
    },
    "runtime": {
        "cudaEGL*": GRAPHICS, "cudaEventCreateFromEGLSync": GRAPHICS, "cudaGL*": GRAPHICS, "cudaGraphics*": GRAPHICS,
        "cudaVDPAU*": GRAPHICS,
        "cudaDeviceGetNvSciSyncAttributes": "NvSciSync exists on NVIDIA's embedded boards only",
    },
    "nvrtc": {}, "nvjitlink": {}, "nvvm": {}, "nvfatbin": {}, "cufile": {},
    "nvml": {"*": "test_nvml_calls.py calls each of them by what the module says of it"},
}  # fmt: skip


def functions(module: str) -> set[str]:
    made = importlib.import_module(f"cuda.bindings.{module}")
    return {name for name in made.__all__ if inspect.isbuiltin(getattr(made, name))}


@pytest.fixture(scope="module")
def called() -> set[str]:
    """Names that a test of the bindings calls or passes as a callable."""
    found: set[str] = set()
    for file in HERE.glob("*.py"):
        text = file.read_text()
        found.update(re.findall(r"\.(\w+)(?=\(|,|\)|\}|\]|$)", text, re.M))
        found.update(re.findall(r"from cuda\.bindings\.\w+ import (\w+)", text))
        found.update(re.findall(r'[("]([a-z_0-9]+)\(', text))  # tables of calls as text: "device_get_name(1)"
    return found


@pytest.mark.parametrize("module", EXCEPTIONS)
def test_every_function_is_called_by_a_test(module: str, called: set[str]) -> None:
    never = {
        name for name in functions(module) - called if not any(fnmatch.fnmatch(name, e) for e in EXCEPTIONS[module])
    }
    assert never == set()


@pytest.mark.parametrize("module", [m for m in EXCEPTIONS if m != "nvml"])
def test_every_exception_of_the_list_is_needed(module: str, called: set[str]) -> None:
    for pattern in EXCEPTIONS[module]:
        names = {name for name in functions(module) if fnmatch.fnmatch(name, pattern)}
        assert names and not names <= called, f"{pattern} names nothing that is left out"
