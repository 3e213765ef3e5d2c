# SPDX-License-Identifier: Apache-2.0
"""The kernels with CUB, cooperative groups and libcu++ of test_library_kernels.py and test_block_kernels.py, compiled for the targets of
compute capability 10.0 and 12.0, give the same results on a CPU device of that capability."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
import test_block_kernels
import test_library_kernels
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

pytestmark = pytest.mark.cpu_only
skip_module_without_nvrtc()

TARGETS = {"100a": "10.0", "120a": "12.0"}


def kernels_of(module: ModuleType) -> list[str]:
    """The tests that compile for the default target and need no fixtures."""
    return [
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("test_") and not inspect.signature(function).parameters and "Program(" in inspect.getsource(function)
    ]  # fmt: skip


CASES = [(module, name) for module in (test_library_kernels, test_block_kernels) for name in kernels_of(module)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("module", "name"), CASES, ids=[name.removeprefix("test_") for _, name in CASES])
def test_kernels_of_libraries(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, target: str) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    monkeypatch.setitem(Program.__init__.__kwdefaults__, "arch", f"compute_{target}")
    getattr(module, name)()


def test_there_are_kernels_of_each_library() -> None:
    text = "".join(inspect.getsource(getattr(module, name)) for module, name in CASES)
    assert all(words in text for words in ("<cub/", "<cooperative_groups", "<cuda/"))
