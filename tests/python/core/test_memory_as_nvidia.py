# SPDX-License-Identifier: Apache-2.0
"""Buffers, memory resources and copies behave as in NVIDIA's package: streams, contexts, kinds of memory, refusals."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
from cuda.bindings import driver
from cuda.core import (
    Buffer,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    Host,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    MemoryResource,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    Stream,
    VirtualMemoryResource,
    VirtualMemoryResourceOptions,
)
from cuda.core.typing import GraphMemoryType
from cuda.core.utils import CopyOptions, StridedMemoryView, copy_batch


def checked(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]


class Plain(MemoryResource):
    """A user's resource over cuMemAlloc. Records what deallocate() was given and what the driver answered."""

    is_device_accessible = True
    is_host_accessible = False
    device_id = 0

    def __init__(self) -> None:
        self.freed: list[tuple[object, driver.CUresult]] = []

    def allocate(self, size, *, stream=None):
        return Buffer.from_handle(int(checked(driver.cuMemAlloc(size))), size, self, stream=stream)

    def deallocate(self, ptr, size, *, stream):
        self.freed.append((stream, driver.cuMemFree(int(ptr))[0]))


class Unreachable(Plain):
    is_device_accessible = False


class Managed(Plain):
    is_host_accessible = True

    def allocate(self, size, *, stream=None):
        ptr = checked(driver.cuMemAllocManaged(size, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
        return Buffer.from_handle(int(ptr), size, self, stream=stream)


@pytest.fixture
def no_context(device):
    """Takes the current context away for a test."""
    context = checked(driver.cuCtxGetCurrent())
    driver.cuCtxSetCurrent(None)
    yield
    driver.cuCtxSetCurrent(context)


def current() -> int:
    return int(checked(driver.cuCtxGetCurrent()))


# ---- a user's memory resource


def test_deallocate_is_given_the_default_stream_when_none_was_named(device):
    resource = Plain()
    resource.allocate(64).close()
    (stream, code) = resource.freed[0]
    assert isinstance(stream, Stream)
    assert int(stream.handle) == int(device.default_stream.handle)
    assert code == driver.CUresult.CUDA_SUCCESS


def test_deallocate_is_given_the_stream_of_from_handle(device, stream):
    resource = Plain()
    resource.allocate(64, stream=stream).close()
    assert resource.freed[0][0] == stream


@pytest.mark.parametrize("ends_by", ["close", "collection"])
def test_deallocate_runs_in_the_context_of_the_allocation(device, ends_by):
    resource = Plain()
    buffer = resource.allocate(64)
    context = current()
    driver.cuCtxSetCurrent(None)
    try:
        if ends_by == "close":
            buffer.close()
        del buffer
        gc.collect()
        assert current() == 0
    finally:
        driver.cuCtxSetCurrent(context)
    assert [code for _, code in resource.freed] == [driver.CUresult.CUDA_SUCCESS]


def test_deallocate_has_a_context_on_a_thread_that_has_none(device):
    resource = Plain()
    buffers = [resource.allocate(64)]
    thread = threading.Thread(target=buffers.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert [code for _, code in resource.freed] == [driver.CUresult.CUDA_SUCCESS]


def test_a_resource_of_host_memory_needs_no_context(no_context):
    class OfHost(Plain):
        def deallocate(self, ptr, size, *, stream):
            self.freed.append(stream)

    memory = bytearray(64)
    resource = OfHost()
    import ctypes

    Buffer.from_handle(ctypes.addressof((ctypes.c_char * 64).from_buffer(memory)), 64, resource).close()
    assert len(resource.freed) == 1


def test_from_handle_refuses_a_stream_without_a_resource(device, stream):
    buffer = device.allocate(64, stream=stream)
    with pytest.raises(ValueError, match="stream"):
        Buffer.from_handle(buffer.handle, 64, stream=stream)
    with pytest.raises(ValueError, match="stream"):
        Buffer.from_handle(buffer.handle, 64, owner=buffer, stream=stream)


# ---- what a buffer says of itself


def test_memory_resource_is_none_after_close(device, stream):
    for buffer in (device.allocate(64, stream=stream), Plain().allocate(64)):
        assert buffer.memory_resource is not None
        buffer.close()
        assert buffer.memory_resource is None


def test_device_id_of_foreign_pinned_memory_is_the_drivers_answer(device):
    address = int(checked(driver.cuMemAllocHost(64)))
    try:
        buffer = Buffer.from_handle(address, 64)
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        assert buffer.device_id == checked(driver.cuPointerGetAttribute(attribute, address)) == 0
        assert (buffer.is_host_accessible, buffer.is_device_accessible) == (True, True)
        assert buffer.__dlpack_device__() == (3, 0)
    finally:
        driver.cuMemFreeHost(address)


def test_managed_memory_of_a_users_resource_is_exported_as_managed(device):
    buffer = Managed().allocate(64)
    assert buffer.is_managed
    assert buffer.__dlpack_device__() == (13, 0)
    assert StridedMemoryView.from_any_interface(buffer, stream_ptr=-1).__dlpack_device__() == (13, 0)


def test_memory_that_nobody_can_access_is_not_exported(device):
    buffer = Unreachable().allocate(64)
    with pytest.raises(BufferError, match="accessible"):
        buffer.__dlpack_device__()
    with pytest.raises(BufferError, match="accessible"):
        buffer.__dlpack__()


@pytest.mark.parametrize("pair", [(), (1,), (1, 2, 3), ("a", "b"), 5, [2, 0]])
def test_a_malformed_dlpack_device_is_a_buffer_error(device, stream, pair):
    buffer = device.allocate(64, stream=stream)
    with pytest.raises(BufferError, match="dl_device"):
        buffer.__dlpack__(dl_device=pair)
    view = StridedMemoryView.from_any_interface(buffer, stream_ptr=-1)
    with pytest.raises(BufferError, match="dl_device"):
        view.__dlpack__(dl_device=pair)
    assert buffer.__dlpack__(dl_device=buffer.__dlpack_device__()) is not None


def test_set_deallocation_stream_of_none_names_what_is_wanted(device, stream):
    buffer = device.allocate(64, stream=stream)
    with pytest.raises(TypeError, match=r"set_deallocation_stream\(\): stream must be a Stream"):
        buffer.set_deallocation_stream(None)


# ---- pools


def test_attributes_answer_after_the_resource_is_closed(device):
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    attributes = resource.attributes
    attributes.release_threshold = 4096
    resource.close()
    assert attributes.release_threshold == 4096
    assert attributes.used_mem_current == 0
    with pytest.raises(RuntimeError, match="closed"):
        resource.attributes  # noqa: B018


def test_handle_of_a_closed_pool_is_null(device):
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    assert int(resource.handle) != 0
    resource.close()
    assert int(resource.handle) == 0


def test_repr_of_pool_attributes_is_in_alphabetical_order(device):
    text = repr(DeviceMemoryResource(device).attributes)
    names = [part.split("=")[0] for part in text[text.index("(") + 1 : -1].split(", ")]
    assert len(names) == 8
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("place", "kind"),
    [(-1, "host_numa"), (-5, "host_numa"), (-1, "host"), (0, "host"), (-1, "device"), (None, "device")],
)
def test_managed_options_refuse_a_place_that_does_not_fit_the_type(device, place, kind):
    options = ManagedMemoryResourceOptions(preferred_location=place, preferred_location_type=kind)
    with pytest.raises(ValueError, match="preferred_location must be"):
        ManagedMemoryResource(options)


def test_managed_options_list_the_types(device):
    with pytest.raises(ValueError, match="'device', 'host' or 'host_numa', not 'moon'"):
        ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location_type="moon"))


# ---- virtual memory


def test_rdma_is_refused_where_the_device_has_none(device):
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    options = VirtualMemoryResourceOptions(gpu_direct_rdma=True)
    if checked(driver.cuDeviceGetAttribute(attribute, int(device))):
        VirtualMemoryResource(device, options)
    else:
        with pytest.raises(RuntimeError, match="RDMA"):
            VirtualMemoryResource(device, options)


def test_virtual_memory_names_its_device(device):
    resource = VirtualMemoryResource(device)
    assert resource.device == device
    assert (resource.is_device_accessible, resource.is_host_accessible, resource.device_id) == (True, False, 0)
    on_host = VirtualMemoryResource(device, VirtualMemoryResourceOptions(location_type="host"))
    assert on_host.device is None
    assert (on_host.is_device_accessible, on_host.is_host_accessible, on_host.device_id) == (False, True, -1)


@pytest.mark.parametrize(
    "field", ["allocation_type", "location_type", "handle_type", "granularity", "self_access", "peer_access"]
)
def test_wrong_words_of_virtual_memory_options_list_the_right_ones(device, field):
    options = VirtualMemoryResourceOptions(**{field: "nonsense"})
    with pytest.raises(ValueError, match=rf"{field} must be one of '.*', not 'nonsense'"):
        VirtualMemoryResource(device, options)


@pytest.mark.parametrize("word", ["win32", "win32_kmt"])
def test_handles_of_windows_are_not_implemented(device, word):
    with pytest.raises(NotImplementedError, match=word):
        VirtualMemoryResource(device, VirtualMemoryResourceOptions(handle_type=word))


# ---- copies


@pytest.fixture
def pair(device, stream):
    return device.allocate(64, stream=stream), device.allocate(64, stream=stream)


@pytest.mark.parametrize("call", ["copy_batch", "copy_to", "copy_from"])
@pytest.mark.parametrize("given", ["builder", "stream"])
def test_a_batch_on_a_capturing_stream_is_a_type_error_and_the_capture_goes_on(device, stream, pair, call, given):
    src, dst = pair
    builder = stream.create_graph_builder().begin_building()
    on = builder if given == "builder" else builder.stream
    with pytest.raises(TypeError, match="captured"):
        if call == "copy_batch":
            copy_batch(on, [src], [dst])
        elif call == "copy_to":
            src.copy_to(dst, stream=on, options=CopyOptions())
        else:
            dst.copy_from(src, stream=on, options=CopyOptions())
    src.copy_to(dst, stream=on)
    builder.end_building().complete().launch(stream)
    stream.sync()


@pytest.mark.parametrize("call", ["copy_batch", "copy_to"])
def test_a_batch_in_the_legacy_default_stream_is_a_type_error(device, pair, call):
    src, dst = pair
    legacy = Stream.from_handle(1)
    with pytest.raises(TypeError, match="legacy default stream"):
        if call == "copy_batch":
            copy_batch(legacy, [src], [dst])
        else:
            src.copy_to(dst, stream=legacy, options=CopyOptions())


def test_wrong_options_of_copies_are_type_errors(device, stream, pair):
    src, dst = pair
    for wrong in ("text", [CopyOptions()], 3):
        with pytest.raises(TypeError, match="options must be a CopyOptions"):
            src.copy_to(dst, stream=stream, options=wrong)
        with pytest.raises(TypeError, match="options must be a CopyOptions"):
            dst.copy_from(src, stream=stream, options=wrong)
    with pytest.raises(TypeError, match=r"options\[0\]"):
        copy_batch(stream, [src], [dst], options=[3])
    for wrong in (3, "text"):
        with pytest.raises(TypeError, match="options must be a CopyOptions, a sequence"):
            copy_batch(stream, [src], [dst], options=wrong)
    with pytest.raises(ValueError, match="1 copies but 2 options"):
        copy_batch(stream, [src], [dst], options=[CopyOptions(), CopyOptions()])
    copy_batch(stream, [src], [dst], options=[CopyOptions()])


def test_a_batch_names_the_argument_that_is_no_sequence(device, stream, pair):
    src, dst = pair
    with pytest.raises(TypeError, match="srcs must be a sequence of Buffers, not int"):
        copy_batch(stream, 3, [dst])
    with pytest.raises(TypeError, match="dsts must be a sequence of Buffers"):
        copy_batch(stream, [src], dst)
    with pytest.raises(TypeError, match=r"srcs\[0\]"):
        copy_batch(stream, [b"bytes"], [dst])


def test_a_batch_of_no_copies_does_nothing(device, stream):
    copy_batch(stream, [], [])


@pytest.mark.parametrize("field", ["src_access_order", "overlap_mode"])
def test_wrong_words_of_copy_options_name_the_field_and_the_words(field):
    with pytest.raises(ValueError, match=rf"{field} must be one of '.*', not 'sideways'"):
        CopyOptions(**{field: "sideways"})


def test_a_wrong_type_of_graph_memory_lists_the_types(device):
    from cuda.core.graph import GraphDefinition

    with pytest.raises(ValueError, match="memory_type must be one of") as error:
        GraphDefinition().allocate(64, memory_type="nonsense")
    assert all(repr(str(word)) in str(error.value) for word in GraphMemoryType)


# ---- managed memory


def test_managed_operations_on_other_memory_are_value_errors(device, stream):
    plain = device.allocate(4096, stream=stream)
    stream.sync()
    buffer = ManagedBuffer.from_handle(plain.handle, 4096, owner=plain)
    operations = [
        lambda: buffer.read_mostly,
        lambda: setattr(buffer, "read_mostly", True),
        lambda: buffer.preferred_location,
        lambda: setattr(buffer, "preferred_location", device),
        lambda: list(buffer.accessed_by),
        lambda: buffer.accessed_by.add(device),
        lambda: buffer.prefetch(device, stream=stream),
        lambda: buffer.discard(stream=stream),
        lambda: buffer.discard_prefetch(device, stream=stream),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match="managed"):
            operation()


@pytest.mark.parametrize("node", [Host(numa_id=0), Host.numa_current()], ids=repr)
def test_accessed_by_takes_devices_and_the_whole_host(device, stream, node):
    buffer = ManagedMemoryResource().allocate(4096, stream=stream)
    stream.sync()
    with pytest.raises(ValueError, match="NUMA"):
        buffer.accessed_by.add(node)
    with pytest.raises(ValueError, match="NUMA"):
        buffer.accessed_by = {device, node}
    assert set(buffer.accessed_by) == set()
    buffer.accessed_by.discard(node)
    try:
        buffer.accessed_by = [device]
    except CUDAError as error:
        if error.name != "CUDA_ERROR_NOT_SUPPORTED":
            raise
        pytest.skip(str(error))  # the driver has no advice
    assert set(buffer.accessed_by) == {device}
    buffer.accessed_by.clear()
    assert set(buffer.accessed_by) == set()


def test_a_truth_value_is_no_numa_node():
    with pytest.raises(ValueError, match="numa_id"):
        Host(True)
    with pytest.raises(ValueError, match="numa_id"):
        Host(-1)
    with pytest.raises(TypeError, match="numa_id"):
        Host("0")


# ---- memory between processes


def shared_pool(device):
    try:
        return DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    except Exception as error:
        pytest.skip(f"no shared pools here: {error}")


def use_imported_buffer(queue_in, queue_out):
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = queue_in.get()
    try:
        buffer.memory_resource.allocate(64, stream=stream)
        queue_out.put("allocated")
    except TypeError:
        queue_out.put("TypeError")
    buffer.close()
    again = ForkingPickler.loads(ForkingPickler.dumps(buffer))  # as the thread of a queue does, later
    queue_out.put(bytes(again.copy_to(bytearray(64), stream=stream)))


def test_an_imported_resource_cannot_allocate_and_its_buffers_pickle_after_close(device, stream):
    resource = shared_pool(device)
    buffer = resource.allocate(64, stream=stream)
    buffer.fill(7, stream=stream)
    stream.sync()
    context = multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    child = context.Process(target=use_imported_buffer, args=(there, back))
    child.start()
    try:
        there.put(buffer)
        assert back.get(timeout=120) == "TypeError"
        assert back.get(timeout=120) == bytes([7] * 64)
    finally:
        child.join(timeout=120)
    assert child.exitcode == 0


def test_a_resource_that_is_not_shared_cannot_be_registered(device):
    import uuid

    name = uuid.uuid4()
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    with pytest.raises(RuntimeError, match="ipc_enabled"):
        resource.register(name)
    assert resource.uuid is None
    with pytest.raises(RuntimeError, match="registered"):
        DeviceMemoryResource.from_registry(name)


def test_a_handle_of_a_pinned_pool_is_no_device_pool(device):
    on_device = shared_pool(device)
    try:
        pinned = PinnedMemoryResource(PinnedMemoryResourceOptions(ipc_enabled=True))
    except Exception as error:
        pytest.skip(f"no shared pools of pinned memory here: {error}")
    with pytest.raises(TypeError, match="PinnedMemoryResource"):
        DeviceMemoryResource.from_allocation_handle(device, pinned.allocation_handle)
    with pytest.raises(TypeError, match="DeviceMemoryResource"):
        PinnedMemoryResource.from_allocation_handle(on_device.allocation_handle)
