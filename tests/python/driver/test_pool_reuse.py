# SPDX-License-Identifier: Apache-2.0
"""A pool reuses memory across streams in the right order: allocated memory is never in use elsewhere."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest
from cuda.bindings import driver as d

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 to, .param .u32 value, .param .u32 count) {
  .reg .b64 %p; .reg .b32 %v, %n; .reg .pred %more;
  ld.param.u64 %p, [to]; ld.param.u32 %v, [value]; ld.param.u32 %n, [count];
again:
  st.volatile.global.u32 [%p], %v; add.u64 %p, %p, 4; sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0;
  @%more bra again;
  ret; }
.visible .entry compare(.param .u64 from, .param .u32 value, .param .u32 count, .param .u64 wrong) {
  .reg .b64 %p, %w; .reg .b32 %v, %n, %x; .reg .pred %more, %bad;
  ld.param.u64 %p, [from]; ld.param.u32 %v, [value]; ld.param.u32 %n, [count]; ld.param.u64 %w, [wrong];
again:
  ld.volatile.global.u32 %x, [%p]; setp.ne.u32 %bad, %x, %v;
  @%bad red.global.add.u32 [%w], 1;
  add.u64 %p, %p, 4; sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0;
  @%more bra again;
  ret; }
"""
WORDS = 512


@pytest.mark.parametrize("allowed", ["all", "events", "nothing"])
def test_memory_in_use_is_never_reused_by_another_stream(context: Any, check: Any, allowed: str) -> None:
    """Streams set, compare and free memory at random; every comparison must find its own value."""
    module = check(d.cuModuleLoadData(PTX))
    fill, compare = (check(d.cuModuleGetFunction(module, name)) for name in (b"fill", b"compare"))
    props = d.CUmemPoolProps()
    props.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location.type, props.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    pool = check(d.cuMemPoolCreate(props))
    names = ("FOLLOW_EVENT_DEPENDENCIES", "ALLOW_OPPORTUNISTIC", "ALLOW_INTERNAL_DEPENDENCIES")
    for name in names:
        on = allowed == "all" or (allowed == "events" and name == names[0])
        check(d.cuMemPoolSetAttribute(pool, getattr(d.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_REUSE_{name}"), int(on)))
    check(d.cuMemPoolSetAttribute(pool, d.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, d.cuuint64_t(1 << 30)))
    streams = [check(d.cuStreamCreate(1)) for _ in range(4)]
    event = check(d.cuEventCreate(2))
    wrong = check(d.cuMemAlloc(64))
    check(d.cuMemsetD32(wrong, 0, 16))
    random_ = random.Random(5)
    live: list[tuple[int, int, int]] = []  # address, value, stream
    addresses = []

    def launch(kernel: Any, stream: int, *arguments: int) -> None:
        types = tuple(ctypes.c_uint64 if a > 1 << 32 else ctypes.c_uint32 for a in arguments)
        check(d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, streams[stream], (arguments, types), 0))

    for value in range(1, 400):
        stream = random_.randrange(4)
        address = int(check(d.cuMemAllocFromPoolAsync(4 * WORDS, pool, streams[stream])))
        addresses.append(address)
        launch(fill, stream, address, value, WORDS)
        live.append((address, value, stream))
        if len(live) > 6:
            address, value, stream = live.pop(random_.randrange(len(live)))
            launch(compare, stream, address, value, WORDS, int(wrong))
            if random_.random() < 0.3:  # freed after an event, in another stream
                check(d.cuEventRecord(event, streams[stream]))
                stream = (stream + 1) % 4
                check(d.cuStreamWaitEvent(streams[stream], event, 0))
            check(d.cuMemFreeAsync(address, streams[stream]))
    assert len({address for address, _, _ in live}) == len(live)
    for address, value, stream in live:
        launch(compare, stream, address, value, WORDS, int(wrong))
        check(d.cuMemFreeAsync(address, streams[stream]))
    check(d.cuCtxSynchronize())
    count = ctypes.c_uint32()
    check(d.cuMemcpyDtoH(ctypes.addressof(count), wrong, 4))
    assert count.value == 0
    assert len(set(addresses)) < len(addresses)  # it was reused
    attribute = d.CUmemPool_attribute
    assert int(check(d.cuMemPoolGetAttribute(pool, attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT))) == 0
    assert int(check(d.cuMemPoolGetAttribute(pool, attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))) > 0
    check(d.cuMemPoolTrimTo(pool, 0))
    assert int(check(d.cuMemPoolGetAttribute(pool, attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))) == 0
    check(d.cuMemFree(wrong))
    check(d.cuEventDestroy(event))
    for stream_ in streams:
        check(d.cuStreamDestroy(stream_))
    check(d.cuMemPoolDestroy(pool))
