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


SPLIT = r"""
from cuda.bindings import driver as d

def check(result):
    code, *values = result
    assert code == 0, code
    return values[0] if len(values) == 1 else values

def group(count, together=0, preferred=0, flags=0):
    made = d.CU_DEV_SM_RESOURCE_GROUP_PARAMS()
    made.smCount, made.coscheduledSmCount, made.preferredCoscheduledSmCount, made.flags = count, together, preferred, flags
    return made

WRONG = d.CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
check(d.cuInit(0))
whole = check(d.cuDeviceGetDevResource(0, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
assert (whole.sm.smCount, whole.sm.minSmPartitionSize, whole.sm.smCoscheduledAlignment) == (20, 1, 1)
parts, rest = check(d.cuDevSmResourceSplit(3, whole, 0, [group(8, 4), group(6, 2, 4), group(4, 2, 4)]))
assert [p.sm.smCount for p in parts] == [8, 6, 4] and rest.sm.smCount == 2
assert [p.sm.smCoscheduledAlignment for p in parts] == [4, 2, 4]  # six cores are no multiple of the preferred four
# As many as there are: a multiple of the cores that are scheduled together, or with backfill all.
backfill = d.CUdevSmResourceGroup_flags.CU_DEV_SM_RESOURCE_GROUP_BACKFILL
parts, rest = check(d.cuDevSmResourceSplit(1, whole, 0, [group(0, 8)]))
assert parts[0].sm.smCount == 16 and rest.sm.smCount == 4
parts, rest = check(d.cuDevSmResourceSplit(1, whole, 0, [group(0, 8, 0, int(backfill))]))
assert parts[0].sm.smCount == 20 and parts[0].sm.flags == int(backfill) and rest.type == d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_INVALID
parts, _ = check(d.cuDevSmResourceSplit(1, whole, 0, [group(9, 4, 0, int(backfill))]))
assert parts[0].sm.smCount == 9
for bad in (group(9, 4), group(24, 8), group(8, 4, 6), group(0, 32)):
    assert d.cuDevSmResourceSplit(1, whole, 0, [bad])[0] == WRONG
assert d.cuDevSmResourceSplit(2, whole, 0, [group(16), group(8)])[0] == WRONG
assert d.cuDevSmResourceSplit(1, whole, 0, [group(4, 0, 0, 64)])[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
# By count: the capability of the device changes nothing, a core is the unit.
groups, count, rest = check(d.cuDevSmResourceSplitByCount(3, whole, 0, 6))
assert (count, [g.sm.smCount for g in groups], rest.sm.smCount) == (3, [6, 6, 6], 2)
queues = check(d.cuDeviceGetDevResource(0, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG))
queues.wqConfig.wqConcurrencyLimit = 3
queues.wqConfig.sharingScope = d.CUdevWorkqueueConfigScope.CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED
green = check(d.cuGreenCtxCreate(check(d.cuDevResourceGenerateDesc([groups[0], queues], 2)), 0, d.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))
seen = check(d.cuGreenCtxGetDevResource(green, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG))
assert (seen.wqConfig.wqConcurrencyLimit, seen.wqConfig.sharingScope) == (3, queues.wqConfig.sharingScope)
assert check(d.cuGreenCtxGetDevResource(green, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)).sm.smCount == 6
check(d.cuGreenCtxDestroy(green))
queues.wqConfig.wqConcurrencyLimit = 0
assert d.cuDevResourceGenerateDesc([groups[0], queues], 2)[0] == WRONG
print("fine")
"""


@pytest.mark.parametrize("arch", ["9.0", "10.0", "12.0"])
def test_split_of_cores_into_groups_that_are_scheduled_together(arch: str) -> None:
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_THREADS": "20", "CUCORE_CPU_ARCH": arch}
    done = subprocess.run([sys.executable, "-c", SPLIT], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
