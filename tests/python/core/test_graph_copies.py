# SPDX-License-Identifier: Apache-2.0
"""Memcpy nodes for linear memory, pitched memory and arrays: added, captured and updated."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.graph import GraphDefinition, MemcpyNode
from cuda.core.texture import OpaqueArrayOptions

SHAPE = (4, 3, 2)  # width, height, depth
BYTES = 4 * 4 * 3 * 2


def array_of(device, first=0):
    """An array with consecutive elements starting at `first`, and the expected numbers."""
    numbers = np.arange(first, first + BYTES // 4, dtype=np.float32)
    array = device.create_opaque_array(OpaqueArrayOptions(SHAPE, "float32", 1))
    stream = device.create_stream()
    array.copy_from(numbers, stream=stream)
    stream.sync()
    return array, numbers


def pinned(size=BYTES):
    buffer = LegacyPinnedMemoryResource().allocate(size)
    np.from_dlpack(buffer)[:] = 0
    return buffer


def floats(buffer):
    return np.frombuffer(memoryview(buffer), np.float32).copy()


def run(graph, stream):
    graph.launch(stream)
    stream.sync()


def test_memcpy_node_copies_a_whole_array(device, stream):
    array, numbers = array_of(device)
    there, back = device.allocate(BYTES, stream=stream), pinned()
    graph = GraphDefinition()
    first = graph.memcpy(there, array, BYTES)
    first.memcpy(back, there, BYTES)
    assert first.src == int(array.handle) and first.dst == there.handle and first.size == BYTES
    run(graph.instantiate(), stream)
    assert (floats(back) == numbers).all()


def test_memcpy_node_copies_between_arrays(device, stream):
    first, _ = array_of(device)
    second, _ = array_of(device, 100)
    numbers, back = pinned(), pinned()
    np.from_dlpack(numbers)[:] = 7
    graph = GraphDefinition()
    graph.memcpy(first, numbers, BYTES).memcpy(second, first, BYTES).memcpy(back, second, BYTES)
    run(graph.instantiate(), stream)
    assert bytes(memoryview(back)) == b"\7" * BYTES


def test_memcpy_node_with_a_size_other_than_the_array_raises(device, stream):
    array, _ = array_of(device)
    other = device.create_opaque_array(OpaqueArrayOptions((4, 3), "float32", 1))
    buffer = device.allocate(BYTES, stream=stream)
    graph = GraphDefinition()
    with pytest.raises(ValueError, match=f"the array has {BYTES} bytes, not 8"):
        graph.memcpy(buffer, array, 8)
    with pytest.raises(ValueError, match="different sizes"):
        graph.memcpy(other, array, BYTES)
    array.close()
    with pytest.raises(RuntimeError, match="closed"):
        graph.memcpy(buffer, array, BYTES)


def test_memcpy_node_is_updated_to_another_array(device, stream):
    first, _ = array_of(device)
    second, numbers = array_of(device, 50)
    back = pinned()
    graph = GraphDefinition()
    node = graph.memcpy(back, first, BYTES)
    node.update(src=second)
    assert node.src == int(second.handle) and node.size == BYTES
    run(graph.instantiate(), stream)
    assert (floats(back) == numbers).all()


def test_memcpy_node_is_updated_from_memory_to_an_array_and_back(device, stream):
    array, numbers = array_of(device)
    plain, back = pinned(), pinned()
    np.from_dlpack(plain)[:] = 1
    graph = GraphDefinition()
    node = graph.memcpy(back, plain, BYTES)
    node.update(src=array)
    run(graph.instantiate(), stream)
    assert (floats(back) == numbers).all()
    node.update(src=plain)
    assert node.src == plain.handle
    run(graph.instantiate(), stream)
    assert bytes(memoryview(back)) == b"\1" * BYTES
    with pytest.raises(ValueError, match="bytes, not 8"):
        node.update(src=array, size=8)


def test_graph_keeps_the_arrays_of_its_memcpy_nodes(device, stream):
    array, numbers = array_of(device)
    back = pinned()
    graph = GraphDefinition()
    graph.memcpy(back, array, BYTES)
    ready = graph.instantiate()
    alive = weakref.ref(array)
    del array, graph
    gc.collect()
    assert alive() is not None
    run(ready, stream)
    assert (floats(back) == numbers).all()
    ready.close()
    gc.collect()
    assert alive() is None


def test_captured_array_copy_keeps_the_array_and_can_be_updated(device, stream):
    first, _ = array_of(device)
    second, numbers = array_of(device, 9)
    back, other = pinned(), pinned()
    builder = device.create_graph_builder().begin_building()
    first.copy_to(back, stream=builder)
    builder.end_building()
    (node,) = builder.graph_definition.nodes()
    assert isinstance(node, MemcpyNode) and node.size == BYTES
    alive = weakref.ref(first)
    del first
    gc.collect()
    assert alive() is not None
    node.update(src=second, dst=other)
    run(builder.complete(), stream)
    assert (floats(other) == numbers).all() and not floats(back).any()


def test_captured_2d_copy_keeps_its_pitch(device, stream):
    rows, pitch, width = 3, 64, 16
    source, target, other = pinned(rows * pitch), pinned(rows * pitch), pinned(rows * pitch)
    np.from_dlpack(source)[:] = np.arange(rows * pitch) % 200

    def window(buffer):
        return np.from_dlpack(buffer).reshape(rows, pitch)[:, :width]

    builder = device.create_graph_builder().begin_building()
    copy = driver.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    copy.srcDevice, copy.dstDevice = source.handle, target.handle
    copy.srcPitch = copy.dstPitch = pitch
    copy.WidthInBytes, copy.Height = width, rows
    (code,) = driver.cuMemcpy2DAsync(copy, builder.stream.handle)
    assert code == 0
    builder.end_building()
    (node,) = builder.graph_definition.nodes()
    assert node.size == rows * width
    node.update(dst=other)
    with pytest.raises(ValueError, match=f"{rows} rows of {width} bytes"):
        node.update(size=8)
    ready = builder.complete()
    run(ready, stream)
    assert (window(other) == window(source)).all() and not np.from_dlpack(target).any()
    outside = np.from_dlpack(other).reshape(rows, pitch)[:, width:]
    assert not outside.any()
    with pytest.raises(ValueError, match="instantiate it again"):
        ready[node].update(dst=target, src=source, size=rows * width)


def test_executable_memcpy_node_accepts_only_linear_copies(device, stream):
    array, _ = array_of(device)
    first, second, back = pinned(16), pinned(32), pinned(32)
    np.from_dlpack(first)[:] = 1
    np.from_dlpack(second)[:] = 2
    graph = GraphDefinition()
    node = graph.memcpy(back, first, 16)
    ready = graph.instantiate()
    ready[node].update(dst=back, src=second, size=32)
    run(ready, stream)
    assert bytes(memoryview(back)) == b"\2" * 32
    assert node.size == 16  # the definition is unchanged
    whole = pinned()
    with pytest.raises(ValueError, match="rows cannot be changed"):
        ready[node].update(dst=whole, src=array, size=BYTES)


def test_memcpy_node_uses_the_current_device(device):
    """Nodes are added and updated on the current device."""
    graph = GraphDefinition()
    a, b = pinned(8), pinned(8)
    node = graph.memcpy(a, b, 8)
    node.update(size=4)
    assert node.size == 4 and Device().device_id == device.device_id
