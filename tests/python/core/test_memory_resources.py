# SPDX-License-Identifier: Apache-2.0
"""Memory resources: pools, pinned, managed, graph and virtual memory, sharing between processes."""

import contextlib
import gc
import multiprocessing
import pickle
import weakref

import pytest
from cuda.core import (
    Buffer,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    GraphMemoryResource,
    Host,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    VirtualMemoryResource,
)
from cuda.core.utils import CopyOptions, copy_batch

NOT_SUPPORTED = 801


@contextlib.contextmanager
def unsupported_is_skipped():
    """Skips the test if the device returns the error code of an unsupported feature."""
    try:
        yield
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))


def content(buffer, stream):
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    return bytes(back)


def test_new_pool_owns_its_handle_and_allocates(device, stream):
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    assert mr.is_handle_owned and not mr.is_ipc_enabled and not mr.is_mapped and mr.device_id == 0
    buffer = mr.allocate(1000, stream=stream)
    assert buffer.memory_resource is mr and buffer.is_device_accessible and not buffer.is_host_accessible
    attributes = mr.attributes
    assert attributes.used_mem_current >= 1000
    attributes.release_threshold = 4096
    assert attributes.release_threshold == 4096
    with pytest.raises(AttributeError):
        attributes.used_mem_current = 0
    mr.close()
    mr.close()
    assert mr.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        mr.allocate(16, stream=stream)
    buffer.fill(1, stream=stream)  # buffers keep their pool
    buffer.close(stream)


def test_allocate_requires_the_stream_as_keyword(device, stream):
    mr = device.memory_resource
    assert mr.allocate(size=4, stream=stream).size == 4
    with pytest.raises(TypeError, match="stream"):
        mr.allocate(4)
    with pytest.raises(TypeError, match="positional"):
        mr.allocate(4, stream)
    with pytest.raises(TypeError, match="colour"):
        mr.allocate(4, stream=stream, colour=1)
    with pytest.raises(TypeError, match="size must be an int"):
        mr.allocate("4", stream=stream)
    with pytest.raises(ValueError, match="size"):
        mr.allocate(-1, stream=stream)


def test_memory_resource_is_freed_with_its_last_buffer(device, stream):
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    buffer, gone = mr.allocate(8, stream=stream), weakref.ref(mr)
    del mr
    assert gone() is buffer.memory_resource
    del buffer
    assert gone() is None  # without garbage collection


def test_memory_resource_in_a_cycle_is_collected(device, stream):
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    mr.itself, gone = mr, weakref.ref(mr)
    del mr
    gc.collect()
    assert gone() is None


def test_derived_memory_resource_overrides_allocate(device, stream):
    class Counting(DeviceMemoryResource):
        count = 0

        def allocate(self, size, *, stream):
            self.count += 1
            return super().allocate(size, stream=stream)

    mr = Counting(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    assert mr.allocate(8, stream=stream).memory_resource is mr and mr.count == 1
    mr.close()
    with pytest.raises(RuntimeError, match="closed"):
        mr.allocate(8, stream=stream)


def test_current_pool_is_shared_and_not_owned(device, stream):
    mr = DeviceMemoryResource(0)
    assert not mr.is_handle_owned
    mr.close()
    device.allocate(16, stream=stream).close()


def test_wrong_memory_resource_options_raise(device):
    assert DeviceMemoryResource(0, {"max_size": 0}).is_handle_owned
    with pytest.raises(TypeError):
        DeviceMemoryResource(0, {"size": 0})
    with pytest.raises(TypeError):
        DeviceMemoryResource(0, 3)
    with pytest.raises(ValueError):
        PinnedMemoryResource(PinnedMemoryResourceOptions(numa_id=-1))
    with pytest.raises(ValueError):
        ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location_type="moon"))


def test_managed_memory_is_accessible_from_host_and_device(device, stream, kernel):
    from cuda.core import LaunchConfig, launch

    mr = ManagedMemoryResource()
    buffer = mr.allocate(4, stream=stream)
    stream.sync()
    assert isinstance(buffer, ManagedBuffer) and buffer.is_managed and buffer.is_host_accessible
    memoryview(buffer)[:] = b"\5\0\0\0"
    launch(stream, LaunchConfig(grid=1, block=1), kernel("add_one"), buffer, 1)
    stream.sync()
    assert bytes(memoryview(buffer)) == b"\6\0\0\0"
    buffer.close(stream)


def test_host_locations_are_singletons():
    assert Host() is Host() and Host(numa_id=1) is Host(1) and Host() != Host(1)
    assert Host.numa_current().is_numa_current and Host.numa_current().numa_id is None
    assert pickle.loads(pickle.dumps(Host(1))) is Host(1)
    with pytest.raises(ValueError):
        Host(-1)
    with pytest.raises(TypeError):
        Host("zero")
    with pytest.raises(ValueError):
        Host(1, is_numa_current=True)


def test_graph_memory_outside_a_capture_raises(device, stream):
    mr = GraphMemoryResource(device)
    assert mr is GraphMemoryResource(0)
    with pytest.raises(RuntimeError, match="GraphBuilder"):
        mr.allocate(16, stream=stream)
    builder = device.create_graph_builder().begin_building()
    buffer = mr.allocate(64, stream=builder)
    buffer.fill(1, stream=builder)
    buffer.close(builder)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert mr.attributes.used_mem_high >= 0
    mr.trim()


def test_virtual_memory_grows_and_keeps_its_contents(device, stream):
    mr = VirtualMemoryResource(device)
    with unsupported_is_skipped():
        buffer = mr.allocate(1000)
    assert buffer.size >= 1000 and buffer.memory_resource is mr
    buffer.fill(3, stream=stream)
    stream.sync()
    larger = mr.modify_allocation(buffer, buffer.size + 1)
    assert buffer.is_closed and content(larger, stream)[:1000] == b"\3" * 1000
    larger.fill(4, stream=stream)
    assert content(larger, stream) == b"\4" * larger.size
    larger.close(stream)
    with pytest.raises(ValueError):
        mr.allocate(0)


def test_copy_batch_copies_each_pair(device, stream):
    sources = [device.allocate(64, stream=stream) for _ in range(3)]
    targets = [device.allocate(64, stream=stream) for _ in range(3)]
    for i, buffer in enumerate(sources):
        buffer.fill(i + 1, stream=stream)
    copy_batch(stream, sources, targets)
    assert [content(t, stream)[0] for t in targets] == [1, 2, 3]
    targets[0].copy_from(sources[2], stream=stream, options=CopyOptions(src_location_hint=device))
    assert content(targets[0], stream) == b"\3" * 64
    with pytest.raises(ValueError, match="3 sources but 2"):
        copy_batch(stream, sources, targets[:2])
    with pytest.raises(ValueError):
        CopyOptions(src_access_order="sideways")


def test_peer_access_is_a_set(device):
    mr = DeviceMemoryResource(0, DeviceMemoryResourceOptions())
    assert set(mr.peer_accessible_by) == set() and len(mr.peer_accessible_by) == 0
    mr.peer_accessible_by = []
    mr.peer_accessible_by.add(0)  # a device can always access its own memory
    assert device not in mr.peer_accessible_by
    others = [d for d in Device.get_all_devices() if d != device and d.can_access_peer(device)]
    mr.peer_accessible_by = others
    assert set(mr.peer_accessible_by) == set(others)


def child(mr, descriptor, buffer, answer):
    """Runs in another process: opens a buffer in both ways and changes it."""
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    opened = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    first = content(opened, stream)
    buffer.fill(9, stream=stream)
    stream.sync()
    try:
        mr.allocate(16, stream=stream)
        rejected = False
    except TypeError:
        rejected = True
    answer.put((first, opened.is_mapped, mr.is_mapped, rejected))
    opened.close(stream)
    buffer.close(stream)
    stream.sync()


def test_buffers_are_shared_with_another_process(device, stream):
    with unsupported_is_skipped():
        mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = mr.allocate(64, stream=stream)
    buffer.fill(7, stream=stream)
    stream.sync()
    descriptor = buffer.ipc_descriptor
    assert descriptor.size == 64 and pickle.loads(pickle.dumps(descriptor)).size == 64
    handle = mr.allocation_handle
    assert int(handle) == handle.handle > 0 and handle.uuid == mr.uuid
    handle.close()
    assert handle.is_closed and mr.from_registry(mr.uuid) is mr
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=child, args=(mr, descriptor, buffer, answer))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert answer.get() == (b"\7" * 64, True, True, True)
    assert content(buffer, stream) == b"\11" * 64


def test_export_without_ipc_enabled_raises(device, stream):
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    with pytest.raises(RuntimeError, match="ipc_enabled"):
        mr.allocation_handle  # noqa: B018
    with pytest.raises(RuntimeError, match="ipc_enabled"):
        mr.allocate(16, stream=stream).ipc_descriptor  # noqa: B018
    with pytest.raises(TypeError):
        Buffer.from_ipc_descriptor(mr, object(), stream=stream)


def receive(pipe):
    """Runs in another process: the memory resource is the first object that it receives."""
    device = Device(0)
    device.set_current()
    buffer = pipe.recv()
    pipe.send((buffer.is_mapped, content(buffer, device.create_stream())))


def test_memory_resource_can_be_pickled_before_its_handle_is_exported(device, stream):
    with unsupported_is_skipped():
        mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = mr.allocate(16, stream=stream)
    buffer.fill(5, stream=stream)
    stream.sync()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=receive, args=(there,))
    process.start()
    there.close()
    here.send(buffer)
    assert here.recv() == (True, b"\5" * 16)
    process.join()
    assert process.exitcode == 0


def test_memory_of_a_managed_pool_accepts_advice(device, stream):
    with unsupported_is_skipped():
        buffer = ManagedMemoryResource().allocate(4096, stream=stream)
    assert buffer.is_managed and buffer.is_host_accessible and buffer.is_device_accessible
    buffer.prefetch(device, stream=stream)
    stream.sync()
    with unsupported_is_skipped():
        buffer.read_mostly = True
    assert buffer.read_mostly
    buffer.preferred_location = device
    assert buffer.preferred_location == device


def test_pool_attributes_keep_the_pool(device):
    assert DeviceMemoryResource(device).attributes.reuse_follow_event_dependencies in (True, False)


@pytest.mark.parametrize(
    ("numa_id", "error"),
    [(True, ValueError), (False, ValueError), (-1, ValueError), (1.5, TypeError), ("0", TypeError)],
)
def test_host_with_an_invalid_node_raises(numa_id, error):
    with pytest.raises(error, match="numa_id"):
        Host(numa_id=numa_id)
