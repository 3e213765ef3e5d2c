# SPDX-License-Identifier: Apache-2.0
"""What is pickled, by value or as an equal object of the receiver, and what raises an error that names the alternative."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Buffer,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    ManagedMemoryResource,
    PinnedMemoryResource,
    Program,
    ProgramOptions,
    StreamOptions,
    VirtualMemoryResource,
    VirtualMemoryResourceOptions,
    launch,
)
from cuda.core.utils import StridedMemoryView
from hypothesis import given, settings
from hypothesis import strategies as st

LARGE = 3 << 20  # received pinned memory of this size stays where it is


def content(buffer: Buffer, stream) -> bytes:
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    return bytes(back)


def sent(thing, protocol: int = 5):
    """What arrives, and the out-of-band buffers on the way."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(thing, protocol=protocol, buffer_callback=buffers.append if protocol >= 5 else None)
    received = [bytearray(b.raw()) for b in buffers]  # what a network delivers
    return pickle.loads(text, buffers=received), buffers


RESOURCES = {
    "device": lambda device: device.memory_resource,
    "own pool": lambda device: DeviceMemoryResource(device, DeviceMemoryResourceOptions()),
    "pinned": lambda device: PinnedMemoryResource(),
    "legacy pinned": lambda device: LegacyPinnedMemoryResource(),
    "managed": lambda device: ManagedMemoryResource(),
    "virtual": lambda device: VirtualMemoryResource(device),
}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("name", RESOURCES)
def test_buffer_goes_by_value(device, stream, name, protocol):
    data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    try:
        buffer = RESOURCES[name](device).allocate(data.nbytes, stream=stream)
    except CUDAError as error:
        pytest.skip(str(error))
    data = np.resize(data, buffer.size)  # virtual memory comes in pages
    buffer.copy_from(data, stream=stream)
    stream.sync()
    again, _ = sent(buffer, protocol)
    assert again.handle != buffer.handle and again.size == buffer.size
    assert (again.is_host_accessible, again.is_managed) == (buffer.is_host_accessible, buffer.is_managed)
    assert content(again, stream) == data.tobytes()
    again.fill(1, stream=stream)
    assert content(buffer, stream) == data.tobytes()


@given(size=st.integers(0, 100_000), pinned=st.booleans(), protocol=st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_any_size_arrives(size, pinned, protocol):
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    resource = PinnedMemoryResource() if pinned else device.memory_resource
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    buffer = resource.allocate(size, stream=stream)
    if size:
        buffer.copy_from(data, stream=stream)
    stream.sync()
    again, _ = sent(buffer, protocol)
    assert again.size == size and (size == 0 or content(again, stream) == data.tobytes())


def test_pinned_memory_is_sent_without_a_copy(device, stream):
    buffer = PinnedMemoryResource().allocate(LARGE, stream=stream)
    stream.sync()
    _, [frame] = sent(buffer)
    address = np.frombuffer(frame.raw(), np.uint8).ctypes.data
    assert address == buffer.handle and frame.raw().nbytes == LARGE


def test_large_pinned_memory_is_received_without_a_copy(device, stream):
    buffer = PinnedMemoryResource().allocate(LARGE, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(buffer, protocol=5, buffer_callback=buffers.append)
    frame = bytearray(buffers[0].raw())
    again = pickle.loads(text, buffers=[frame])
    assert again.handle == np.frombuffer(frame, np.uint8).ctypes.data
    assert again.is_host_accessible and again.is_device_accessible
    again.fill(4, stream=stream)  # devices use it in place
    stream.sync()
    assert set(frame) == {4}
    again.close()
    third = pickle.loads(text, buffers=[frame])  # and can again after it was given up
    assert third.handle == np.frombuffer(frame, np.uint8).ctypes.data


def test_read_only_frame_gives_a_read_only_buffer(device, stream):
    buffer = PinnedMemoryResource().allocate(LARGE, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(buffer, protocol=5, buffer_callback=buffers.append)
    again = pickle.loads(text, buffers=[bytes(buffers[0].raw())])
    assert memoryview(again).readonly and memoryview(again)[5] == 3
    with pytest.raises(TypeError, match="read-only"):
        again.fill(1, stream=stream)
    with pytest.raises(TypeError, match="read-only"):
        again.copy_from(buffer, stream=stream)
    with pytest.raises(TypeError, match="read-only"):
        buffer.copy_to(again, stream=stream)
    with pytest.raises((TypeError, ValueError)):
        memoryview(again)[0] = 1
    assert not np.from_dlpack(again).flags.writeable
    there = device.allocate(LARGE, stream=stream)
    there.copy_from(again, stream=stream)
    assert set(content(there, stream)) == {3}


def test_pickling_waits_for_the_work_before_the_release(device, stream):
    gate = threading.Event()
    buffer = device.allocate(1000, stream=stream)
    pinned = PinnedMemoryResource().allocate(1000, stream=stream)
    assert driver.cuLaunchHostFunc(stream.handle, lambda _: gate.wait(), None)[0] == 0
    buffer.fill(5, stream=stream)
    pinned.fill(6, stream=stream)
    threading.Timer(0.2, gate.set).start()
    assert set(content(sent(buffer)[0], stream)) == {5}
    assert set(content(sent(pinned)[0], stream)) == {6}


def test_thread_without_a_context_sends_and_receives_and_keeps_none(device, stream):
    buffer = device.allocate(1000, stream=stream)
    buffer.fill(5, stream=stream)
    found = []

    def other() -> None:
        again, _ = sent(buffer)
        found.append(driver.cuCtxGetCurrent())
        found.append(again)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert set(content(found[1], stream)) == {5}
    assert found[0][0] == 0 and int(found[0][1]) == 0


def test_copy_module_makes_another_buffer(device, stream):
    buffer = device.allocate(100, stream=stream)
    buffer.fill(5, stream=stream)
    again = copy.deepcopy(buffer)
    assert again.handle != buffer.handle and set(content(again, stream)) == {5}


def test_closed_things_raise(device, stream):
    buffer, other = device.allocate(100, stream=stream), device.create_stream()
    program = Program('extern "C" __global__ void f() {}', "c++", ProgramOptions(arch="sm_90"))
    for thing in (buffer, other, program):
        thing.close()
        with pytest.raises(RuntimeError, match="closed"):
            pickle.dumps(thing)


def test_buffer_and_its_view_stay_together(device, stream):
    buffer = device.allocate(48, stream=stream)
    data = np.arange(12, dtype=np.float32)
    buffer.copy_from(data, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (4, 3), (1, 4), dtype=np.float32)
    (one, two), frames = sent((buffer, view))
    assert len(frames) == 1 and two.exporting_obj is one and two.ptr == one.handle
    assert (two.shape, two.strides, two.dtype) == ((4, 3), (1, 4), np.float32)
    assert content(one, stream) == data.tobytes()


@pytest.mark.parametrize("kind", ["records", "item size", "array", "transposed", "read-only"])
def test_views_arrive_with_layout_and_type(device, stream, kind):
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    if kind == "records":
        array = np.zeros(3, np.dtype([("a", np.int32), ("b", np.float64)]))
        array["b"] = 7
    if kind == "transposed":
        array = array.T
    if kind == "read-only":
        array.flags.writeable = False
    if kind == "item size":
        buffer = device.allocate(64, stream=stream)
        view = StridedMemoryView.from_buffer(buffer, (8,), itemsize=8)
    else:
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    again, _ = sent(view)
    assert (again.shape, again.dtype, again.readonly) == (view.shape, view.dtype, view.readonly)
    assert again._layout.strides == view._layout.strides
    if kind != "item size":
        assert np.array_equal(again.exporting_obj, array)


# ---- things that arrive as equal things of the receiver


def test_stream_arrives_as_a_stream_of_its_device(device):
    stream = device.create_stream(options=StreamOptions(nonblocking=False, priority=-1))
    again = pickle.loads(pickle.dumps(stream))
    assert again.handle != stream.handle and again.device is device
    assert (again.is_nonblocking, again.priority) == (stream.is_nonblocking, stream.priority)
    for default in (LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM):
        assert pickle.loads(pickle.dumps(default)) == default


def test_program_and_launch_arrive(device, stream):
    source = 'extern "C" __global__ void put(int* at) { at[threadIdx.x] = VALUE; }'
    program = Program(source, "c++", ProgramOptions(define_macro=("VALUE", "42"), arch=f"sm_{device.arch}"))
    again, config = pickle.loads(pickle.dumps((program, LaunchConfig(grid=1, block=4))))
    buffer = device.allocate(16, stream=stream)
    launch(stream, config, again.compile("cubin").get_kernel("put"), buffer)
    assert np.frombuffer(content(buffer, stream), np.int32).tolist() == [42] * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda device: device.memory_resource,
        lambda device: PinnedMemoryResource(),
        lambda device: ManagedMemoryResource(),
        lambda device: LegacyPinnedMemoryResource(),
        lambda device: GraphMemoryResource(device),
        lambda device: VirtualMemoryResource(device, VirtualMemoryResourceOptions(granularity="minimum")),
    ],
)
def test_resource_that_every_process_has_arrives(device, stream, make):
    resource = make(device)
    again = pickle.loads(pickle.dumps(resource))
    assert type(again) is type(resource) and again.device_id == resource.device_id
    if not isinstance(resource, GraphMemoryResource):
        again.allocate(64, stream=stream).close()


# ---- things that belong to their process


def test_things_of_one_process_raise_and_name_the_alternative(device, stream):
    code = Program('extern "C" __global__ void f() {}', "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    builder = device.create_graph_builder()
    builder.begin_building()
    scratch = GraphMemoryResource(device).allocate(64, stream=builder)
    with pytest.raises(TypeError, match="copy it to a buffer"):
        pickle.dumps(scratch)
    scratch.close(builder)
    graph = builder.end_building().complete()
    for thing, alternative in (
        (graph, "build the graph where it runs"),
        (builder, "build the graph where it runs"),
        (Linker(code), "pickle the ObjectCode"),
        (device.context, "pickle the Device"),
        (device.create_event(), "ipc_enabled=True"),
    ):
        with pytest.raises(TypeError, match=alternative):
            pickle.dumps(thing)
    with pytest.raises(RuntimeError, match="ipc_enabled=True"):
        pickle.dumps(DeviceMemoryResource(device, DeviceMemoryResourceOptions()))
