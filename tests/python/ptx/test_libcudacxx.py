# SPDX-License-Identifier: Apache-2.0
"""Every function of libcu++'s cuda::ptx is compiled by NVRTC for the targets of compute capability 10 and 12, and loads on a CPU device
of that capability. What does not load is listed here with its reason."""

from __future__ import annotations

import re

import pytest
from ptxsuite import libcudacxx
from ptxsuite.device import DriverError
from ptxsuite.nvrtc import compile_ptx, skip_module_without_nvrtc
from ptxsuite.program import device

pytestmark = pytest.mark.cpu_only
skip_module_without_nvrtc()

TARGETS = {"100a": "10.0", "103a": "10.3", "110a": "11.0", "120a": "12.0", "121a": "12.1"}
NEWEST = 940  # the ISA version of NVRTC 13.4
# Header: why its functions do not load.
REFUSED = {
    "fabric_": "accesses memory through an NVLink fabric",
    "fence_proxy_fabric": "orders accesses through an NVLink fabric",
    "fence_proxy_generic_fabric": "orders accesses through an NVLink fabric",
}


def is_refused(function: libcudacxx.Function) -> bool:
    return function.header.startswith(tuple(REFUSED))


def chosen(target: str, tcgen05: bool) -> list[libcudacxx.Function]:
    found = [f for f in libcudacxx.functions() if f.isa <= NEWEST and f.runs_on(target)]
    if not found:
        pytest.skip(f"this version of libcu++ has no functions for sm_{target}")
    return [f for f in found if f.header.startswith("tcgen05") == tcgen05]


def refused_lines(source: str, target: str) -> list[str]:
    """The instructions that the device refuses, without their operands."""
    ptx = compile_ptx(source, arch=f"compute_{target}")
    try:
        module = device().load(ptx)
    except DriverError as error:
        lines = ptx.decode().splitlines()
        numbers = [int(n) for n in re.findall(r"^ptx:(\d+):", error.log, re.M)]
        assert numbers, error.log
        return sorted({re.sub(r"\s.*", "", lines[n - 1].strip()) for n in numbers})
    device().call("cuModuleUnload", module)
    return []


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_loads(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    functions = [f for f in chosen(target, False) if not is_refused(f)]
    assert len(functions) > 300 and all(libcudacxx.calls(f) for f in functions)
    assert refused_lines(libcudacxx.program(functions), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_functions_with_a_reason_are_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    functions = [f for f in chosen(target, False) if is_refused(f)]
    if not functions:
        pytest.skip("this version of libcu++ has none of these functions")
    opcodes = refused_lines(libcudacxx.program(functions), target)
    assert opcodes and all(op.startswith(("fabric.", "fence.proxy.")) for op in opcodes), opcodes
