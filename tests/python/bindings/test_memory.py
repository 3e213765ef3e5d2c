# SPDX-License-Identifier: Apache-2.0
"""Memory through the driver bindings: buffers of any kind, length checks, attributes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from cuda.bindings import driver


@pytest.fixture
def buffer(context: Any, check: Any) -> Any:
    pointer = check(driver.cuMemAlloc(64))
    assert isinstance(pointer, driver.CUdeviceptr)
    yield pointer
    check(driver.cuMemFree(pointer))


def test_bytes_are_copied_to_the_device_and_back(buffer: Any, check: Any) -> None:
    check(driver.cuMemcpyHtoD(buffer, bytes(range(64)), 64))
    back = bytearray(64)
    check(driver.cuMemcpyDtoH(back, buffer, 64))
    assert back == bytes(range(64))


def test_numpy_array_is_accepted_as_a_buffer(buffer: Any, check: Any) -> None:
    np = pytest.importorskip("numpy")
    there = np.arange(16, dtype=np.float32)
    back = np.zeros_like(there)
    check(driver.cuMemcpyHtoD(buffer, there, there.nbytes))
    check(driver.cuMemcpyDtoH(back.ctypes.data, buffer, back.nbytes))
    assert (there == back).all()


def test_too_small_buffer_raises(buffer: Any) -> None:
    with pytest.raises(ValueError, match=r"srcHost has 3 bytes, but the call uses 64"):
        driver.cuMemcpyHtoD(buffer, b"abc", 64)
    with pytest.raises(ValueError, match=r"dstHost has 8 bytes, but the call uses 64"):
        driver.cuMemcpyDtoH(bytearray(8), buffer, 64)


def test_bytes_object_as_output_buffer_raises(buffer: Any) -> None:
    with pytest.raises(ValueError, match="dstHost must be a contiguous writable buffer"):
        driver.cuMemcpyDtoH(b"x", buffer, 1)


def test_non_contiguous_buffer_raises(buffer: Any) -> None:
    with pytest.raises(BufferError, match="srcHost must be a contiguous buffer"):
        driver.cuMemcpyHtoD(buffer, memoryview(bytes(128))[::2], 64)


def test_pointer_attributes_have_their_types(buffer: Any, check: Any) -> None:
    attribute = driver.CUpointer_attribute
    kind = check(driver.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buffer))
    assert kind is driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    assert check(driver.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED, buffer)) is False
    wanted = [attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL]
    assert check(driver.cuPointerGetAttributes(2, wanted, buffer)) == [kind, 0]


def test_pool_attributes_are_read_and_written(device: Any, context: Any, check: Any) -> None:
    pool = check(driver.cuDeviceGetDefaultMemPool(device))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    before = check(driver.cuMemPoolGetAttribute(pool, threshold))
    assert isinstance(before, driver.cuuint64_t)
    for value in (driver.cuuint64_t(1 << 20), 1 << 21):
        check(driver.cuMemPoolSetAttribute(pool, threshold, value))
        assert int(check(driver.cuMemPoolGetAttribute(pool, threshold))) == int(value)
    check(driver.cuMemPoolSetAttribute(pool, threshold, before))


def test_names_are_returned_as_bytes(device: Any, check: Any) -> None:
    assert isinstance(check(driver.cuDeviceGetName(256, device)), bytes)
    assert check(driver.cuGetErrorName(driver.CUresult.CUDA_ERROR_NOT_FOUND)) == b"CUDA_ERROR_NOT_FOUND"
    assert len(check(driver.cuDeviceGetUuid(device)).bytes) == 16
    with pytest.raises(ValueError, match="length is too large"):
        driver.cuDeviceGetName(1 << 30, device)


def test_pageable_source_can_be_freed_after_an_async_copy_returns(stream: Any, check: Any) -> None:
    size = 1 << 16
    pointer = check(driver.cuMemAlloc(size))
    go_on = threading.Event()
    check(driver.cuLaunchHostFunc(stream, lambda _: go_on.wait(), None))
    threading.Timer(0.2, go_on.set).start()  # a driver may read the source only when the copy runs
    source = bytearray(b"A" * size)
    check(driver.cuMemcpyHtoDAsync(pointer, source, size, stream))
    source[:] = b"B" * size
    del source
    target = bytearray(size)
    check(driver.cuMemcpyDtoHAsync(target, pointer, size, stream))
    check(driver.cuStreamSynchronize(stream))
    assert set(target) == {ord("A")}
    check(driver.cuMemFree(pointer))
