# SPDX-License-Identifier: Apache-2.0
"""Views of host memory keep it alive after their buffer is closed; the memory is freed with the last view."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import LegacyPinnedMemoryResource, ManagedMemoryResource, PinnedMemoryResource
from cuda.core.utils import StridedMemoryView

pytestmark = pytest.mark.promise(
    "Memory that a memoryview, an array or a strided view refers to outlives the closing of its buffer"
)

VIEWS = {
    "memoryview": memoryview,
    "slice of a memoryview": lambda buffer: memoryview(buffer)[8:],
    "array by DLPack": np.from_dlpack,
    "array by the buffer protocol": lambda buffer: np.frombuffer(buffer, np.uint8),
    "strided view": lambda buffer: StridedMemoryView.from_buffer(buffer, shape=(64,), dtype=np.dtype("u1")),
    "array of a strided view": lambda buffer: np.from_dlpack(
        StridedMemoryView.from_buffer(buffer, shape=(64,), dtype=np.dtype("u1"))
    ),
}


def is_known(address: int) -> bool:
    return driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)[0] == 0


def seen(view: object) -> int:
    if isinstance(view, StridedMemoryView):
        view = np.from_dlpack(view)
    return int(view[20])  # type: ignore[index]


@pytest.mark.parametrize("name", VIEWS)
def test_view_keeps_the_memory_of_a_closed_buffer(device, name):
    buffer = LegacyPinnedMemoryResource().allocate(1 << 20)
    address = int(buffer.handle)
    memoryview(buffer)[:64] = bytes(range(64))
    view = VIEWS[name](buffer)
    first = seen(view)
    buffer.close()
    buffer.close()
    assert buffer.is_closed and buffer.size == 0
    assert seen(view) == first and is_known(address)
    with pytest.raises(RuntimeError, match="closed"):
        memoryview(buffer)
    del view
    gc.collect()
    assert not is_known(address)


@pytest.mark.parametrize("resource", [ManagedMemoryResource, PinnedMemoryResource])
def test_view_keeps_stream_ordered_memory(device, stream, resource):
    buffer = resource().allocate(4096, stream=stream)
    stream.sync()
    first, second = np.from_dlpack(buffer), memoryview(buffer)
    first[:] = 5
    del buffer
    gc.collect()
    assert second[4095] == 5
    del first
    assert second[4095] == 5


def test_view_keeps_the_memory_of_a_deleted_buffer(device):
    view = memoryview(LegacyPinnedMemoryResource().allocate(64))
    gc.collect()
    view[:] = bytes(64)
    with view, LegacyPinnedMemoryResource().allocate(64) as other:
        kept = memoryview(other)
    kept[3] = 3
    assert kept[3] == 3


def test_memory_is_freed_with_the_last_view(device):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    address = int(buffer.handle)
    for _ in range(100):
        views = [make(buffer) for make in VIEWS.values()]
        del views
    gc.collect()
    assert is_known(address)
    buffer.close()
    assert not is_known(address)
