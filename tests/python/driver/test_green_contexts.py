# SPDX-License-Identifier: Apache-2.0
"""Kernels of a green context run on as many host threads as it has cores; each program runs in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu_only

PROGRAM = r"""
import ctypes
from cuda.bindings import driver as d

def check(result):
    code, *values = result
    assert code == 0, code
    return values[0] if len(values) == 1 else values

# Counts the blocks that are at work at the same time; each stays for two milliseconds.
PTX = b'''
.version 8.0
.target sm_90
.address_size 64
.visible .entry crowd(.param .u64 counts) {
  .reg .b64 %p, %t, %end; .reg .b32 %v; .reg .pred %more;
  ld.param.u64 %p, [counts];
  atom.global.add.u32 %v, [%p], 1; add.u32 %v, %v, 1; red.global.max.u32 [%p+4], %v; red.global.add.u32 [%p+8], 1;
  mov.u64 %t, %globaltimer; add.u64 %end, %t, 2000000;
again:
  mov.u64 %t, %globaltimer; setp.lt.u64 %more, %t, %end;
  @%more bra again;
  atom.global.add.u32 %v, [%p], -1;
  ret; }
'''
check(d.cuInit(0))
primary = check(d.cuDevicePrimaryCtxRetain(0))
check(d.cuCtxSetCurrent(primary))

def most_at_once(context, stream, blocks=12):
    check(d.cuCtxSetCurrent(context))
    module = check(d.cuModuleLoadData(PTX))
    kernel = check(d.cuModuleGetFunction(module, b"crowd"))
    counts = check(d.cuMemAlloc(16))
    check(d.cuMemsetD32(counts, 0, 4))
    check(d.cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, ((int(counts),), (ctypes.c_uint64,)), 0))
    check(d.cuStreamSynchronize(stream))
    words = (ctypes.c_uint32 * 4)()
    check(d.cuMemcpyDtoH(words, counts, 16))
    assert words[0] == 0 and words[2] == blocks
    return words[1]

usual = check(d.cuStreamCreate(1))
whole = check(d.cuDeviceGetDevResource(0, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
assert whole.sm.smCount == 4
groups, count, rest = check(d.cuDevSmResourceSplitByCount(1, whole, 0, SHARE))
assert (count, groups[0].sm.smCount, rest.sm.smCount) == (1, SHARE, 4 - SHARE)
green = check(d.cuGreenCtxCreate(check(d.cuDevResourceGenerateDesc(groups, 1)), 0, d.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))
stream = check(d.cuGreenCtxStreamCreate(green, 1, 0))
context = check(d.cuCtxFromGreenCtx(green))
assert most_at_once(context, stream) <= SHARE
assert most_at_once(context, stream) <= SHARE
for _ in range(50):  # on a busy machine the other threads may come late
    if most_at_once(primary, usual) > SHARE:
        break
else:
    raise AssertionError("a whole device never used more threads than a part of it")
check(d.cuStreamDestroy(stream))
check(d.cuGreenCtxDestroy(green))
print("fine")
"""


@pytest.mark.parametrize("share", [1, 2])
def test_kernels_of_a_green_context_use_only_its_cores(share: int) -> None:
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", PROGRAM.replace("SHARE", str(share))], env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
