# SPDX-License-Identifier: Apache-2.0
"""Managed memory and address ranges through the driver bindings: advice, prefetch, discard, attributes."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as d

SIZE = 4 << 20
HALF = SIZE // 2
RANGE = d.CUmem_range_attribute


def place(kind: str, number: int = 0) -> Any:
    made = d.CUmemLocation()
    made.type, made.id = getattr(d.CUmemLocationType, f"CU_MEM_LOCATION_TYPE_{kind}"), number
    return made


@pytest.fixture
def managed(device: Any, context: Any, check: Any) -> Any:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
    if not check(d.cuDeviceGetAttribute(can, device)):
        pytest.skip("no managed memory that both sides use at a time")
    made = check(d.cuMemAllocManaged(SIZE, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL))
    ctypes.memset(int(made), 1, SIZE)
    yield made
    check(d.cuCtxSynchronize())
    check(d.cuMemFree(made))


def test_memory_advice_is_returned_as_a_range_attribute(managed: Any, device: Any, since: Any, check: Any) -> None:
    since(13000)
    advice = d.CUmem_advise
    check(d.cuMemAdvise(managed, SIZE, advice.CU_MEM_ADVISE_SET_READ_MOSTLY, place("DEVICE")))
    assert check(d.cuMemRangeGetAttribute(4, RANGE.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, SIZE)) == 1
    check(d.cuMemAdvise(managed, SIZE, advice.CU_MEM_ADVISE_UNSET_READ_MOSTLY, place("DEVICE")))
    check(d.cuMemAdvise(managed, HALF, advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place("HOST")))
    preferred = RANGE.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
    assert check(d.cuMemRangeGetAttribute(4, preferred, managed, HALF)) == -1  # CU_DEVICE_CPU
    check(d.cuMemAdvise(managed, SIZE, advice.CU_MEM_ADVISE_SET_ACCESSED_BY, place("DEVICE", int(device))))
    users = check(d.cuMemRangeGetAttribute(8, RANGE.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, SIZE))
    assert users == [int(device), -2]  # no other device
    with pytest.raises(ValueError, match="dataSize is too large"):
        d.cuMemRangeGetAttribute(1 << 40, preferred, managed, SIZE)
    several = [RANGE.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, preferred]
    assert check(d.cuMemRangeGetAttributes([4, 4], several, 2, managed, HALF)) == [0, -1]
    several[0] = RANGE.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY
    assert check(d.cuMemRangeGetAttributes([4096, 4], several, 2, managed, HALF)) == [[int(device), *[-2] * 1023], -1]
    with pytest.raises(ValueError, match="dataSizes is too large"):
        d.cuMemRangeGetAttributes([1 << 40, 4], several, 2, managed, HALF)


def test_prefetch_sets_the_last_location(managed: Any, device: Any, stream: Any, since: Any, check: Any) -> None:
    since(13000)
    last = RANGE.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
    check(d.cuMemPrefetchAsync(managed, SIZE, place("DEVICE", int(device)), 0, stream))
    check(d.cuStreamSynchronize(stream))
    assert check(d.cuMemRangeGetAttribute(4, last, managed, SIZE)) == int(device)
    other = check(d.cuMemAllocManaged(SIZE, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL))
    places = [place("HOST"), place("DEVICE", int(device))]
    check(d.cuMemPrefetchBatchAsync([managed, other], [SIZE, SIZE], 2, places, [0, 1], 2, 0, stream))
    check(d.cuStreamSynchronize(stream))
    assert check(d.cuMemRangeGetAttribute(4, last, managed, SIZE)) == -1
    assert check(d.cuMemRangeGetAttribute(4, last, other, SIZE)) == int(device)
    check(d.cuMemFree(other))
    assert ctypes.string_at(int(managed), 4) == b"\1\1\1\1"


def test_discarded_memory_can_be_written(managed: Any, device: Any, stream: Any, since: Any, check: Any) -> None:
    since(13000)
    where = [place("DEVICE", int(device))]
    check(d.cuMemDiscardBatchAsync([managed], [HALF], 1, 0, stream))
    check(d.cuMemDiscardAndPrefetchBatchAsync([int(managed) + HALF], [HALF], 1, where, [0], 1, 0, stream))
    check(d.cuMemsetD8Async(managed, 7, SIZE, stream))
    check(d.cuStreamSynchronize(stream))
    assert ctypes.string_at(int(managed) + HALF - 2, 4) == b"\7\7\7\7"


def test_location_of_memory_is_returned_if_supported(managed: Any, memory: Any, since: Any, check: Any) -> None:
    since(13040)
    location = d.CUmemLocation()
    code = d.cuMemGetLocationInfo(managed, SIZE, SIZE, SIZE, location)[0]
    assert code in (0, d.CUresult.CUDA_ERROR_INVALID_VALUE, d.CUresult.CUDA_ERROR_NOT_SUPPORTED)
    if code == 0:
        assert isinstance(location.type, d.CUmemLocationType)


def test_managed_memory_is_attached_to_a_stream(device: Any, stream: Any, context: Any, check: Any) -> None:
    flags = d.CUmemAttach_flags
    made = check(d.cuMemAllocManaged(4096, flags.CU_MEM_ATTACH_HOST))
    check(d.cuStreamAttachMemAsync(stream, made, 0, flags.CU_MEM_ATTACH_SINGLE))
    check(d.cuStreamSynchronize(stream))
    ctypes.memset(int(made), 5, 4)
    check(d.cuMemsetD8Async(int(made) + 4, 6, 4, stream))
    check(d.cuStreamSynchronize(stream))
    assert ctypes.string_at(int(made), 8) == b"\5\5\5\5\6\6\6\6"
    check(d.cuMemFree(made))


def test_pointer_attributes_are_set_and_returned(memory: Any, context: Any, check: Any) -> None:
    sync = d.CUpointer_attribute.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    check(d.cuPointerSetAttribute(True, sync, memory))
    assert check(d.cuPointerGetAttribute(sync, memory)) in (1, True)
    check(d.cuPointerSetAttribute(False, sync, memory))
    kinds = [d.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT]
    kind, owner = check(d.cuPointerGetAttributes(2, kinds, memory))
    assert kind == int(d.CUmemorytype.CU_MEMORYTYPE_DEVICE) and int(owner) == int(context)


def test_location_has_a_current_memory_pool(device: Any, context: Any, since: Any, check: Any) -> None:
    since(13000)
    pinned = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    here = place("DEVICE", int(device))
    pool = check(d.cuMemGetDefaultMemPool(here, pinned))
    assert int(pool) == int(check(d.cuDeviceGetDefaultMemPool(device)))
    before = check(d.cuMemGetMemPool(here, pinned))
    check(d.cuMemSetMemPool(here, pinned, pool))
    assert int(check(d.cuMemGetMemPool(here, pinned))) == int(pool)
    check(d.cuMemSetMemPool(here, pinned, before))
    access = d.CUmemAccessDesc()
    access.location, access.flags = here, d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(d.cuMemPoolSetAccess(pool, [access], 1))
    assert check(d.cuMemPoolGetAccess(pool, here)) == access.flags
