# SPDX-License-Identifier: Apache-2.0
"""Managed variables of libraries: one address for all contexts, which exists without a current context."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as d

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 counter = 41;
.visible .entry increment() {
  .reg .b32 %v;
  ld.global.u32 %v, [counter]; add.u32 %v, %v, 1; st.global.u32 [counter], %v;
  ret; }
"""


def test_managed_variable_is_found_without_a_context_and_keeps_its_value(context: Any, check: Any) -> None:
    library = check(d.cuLibraryLoadData(PTX, [], [], 0, [], [], 0))
    check(d.cuCtxSetCurrent(None))
    address, size = check(d.cuLibraryGetManaged(library, b"counter"))
    assert size == 4
    check(d.cuCtxSetCurrent(context))
    value = ctypes.c_uint.from_address(int(address))
    assert value.value == 41
    kernel = check(d.cuLibraryGetKernel(library, b"increment"))
    check(d.cuLaunchKernel(d.CUfunction(int(kernel)), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    check(d.cuCtxSynchronize())
    assert value.value == 42
    other = check(d.cuCtxCreate(None, 0, 0))  # loads the library a second time
    assert check(d.cuLibraryGetManaged(library, b"counter")) == (address, size)
    check(d.cuLaunchKernel(d.CUfunction(int(kernel)), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    check(d.cuCtxSynchronize())
    check(d.cuCtxDestroy(other))
    check(d.cuCtxSetCurrent(context))
    assert value.value == 43
    check(d.cuLibraryUnload(library))


def test_version_of_a_reset_primary_context_is_an_invalid_context(check: Any) -> None:
    import subprocess
    import sys

    program = """
from cuda.bindings import driver as d
d.cuInit(0)
context = d.cuDevicePrimaryCtxRetain(0)[1]
d.cuCtxSetCurrent(context)
print(int(d.cuCtxGetApiVersion(context)[0]))
d.cuDevicePrimaryCtxReset(0)
print(int(d.cuCtxGetApiVersion(context)[0]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "201"], done.stderr
