# SPDX-License-Identifier: Apache-2.0
"""Buffers opened from another process: their memory and the lifetime of their mapping. The tests start real processes."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver
from cuda.core import Buffer, CUDAError, Device, DeviceMemoryResource, DeviceMemoryResourceOptions

SIZE = 1 << 16
NOT_SUPPORTED = 801


def shared_pool(device: Device) -> DeviceMemoryResource:
    try:
        return DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))


def content(buffer: Buffer, stream: Any) -> bytes:
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    return bytes(back)


def blocked(stream: Any) -> Callable[[], None]:
    """Blocks the stream until the returned function is called."""
    gate = threading.Event()
    assert driver.cuLaunchHostFunc(stream.handle, lambda _: gate.wait(), None)[0] == 0
    return gate.set


def in_another_process(task: Callable[..., None], *args: Any) -> Any:
    """The result of a task in a separate process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=task, args=(*args, there))
    process.start()
    there.close()
    try:
        answer = here.recv()
    finally:
        process.join()
    assert process.exitcode == 0
    return answer


# ---- memory


def read_all(buffers: list[Buffer], answer: Any) -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    answer.send([content(buffer, stream)[0] for buffer in buffers])


def test_buffers_of_several_pools_open_their_own_memory(device, stream):
    pools = [shared_pool(device) for _ in range(3)]
    buffers = [pool.allocate(256, stream=stream) for pool in pools for _ in range(2)]
    for value, buffer in enumerate(buffers, 1):
        buffer.fill(value, stream=stream)
    stream.sync()
    assert in_another_process(read_all, buffers) == [1, 2, 3, 4, 5, 6]


def test_exported_pointers_of_different_pools_differ(device, stream):
    first, second = (shared_pool(device).allocate(256, stream=stream) for _ in range(2))
    stream.sync()
    assert first.ipc_descriptor._payload != second.ipc_descriptor._payload


def open_in_the_wrong_pool(wrong: DeviceMemoryResource, descriptor: Any, answer: Any) -> None:
    Device(0).set_current()
    try:
        Buffer.from_ipc_descriptor(wrong, descriptor)
        answer.send(None)
    except CUDAError as error:
        answer.send(error.code)


@pytest.mark.cpu_only  # a GPU's driver has an undocumented rule
def test_pointer_of_another_pool_raises(device, stream):
    right, wrong = shared_pool(device), shared_pool(device)
    buffer = right.allocate(256, stream=stream)
    wrong.allocate(256, stream=stream).close(stream)
    stream.sync()
    assert in_another_process(open_in_the_wrong_pool, wrong, buffer.ipc_descriptor) == 1


# ---- lifetime of the mapping


def copy_then_close(how: str, mr: DeviceMemoryResource, descriptor: Any, answer: Any) -> None:
    """Closes a buffer while a copy to it is queued after unfinished work."""
    device = Device(0)
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()
    source = device.allocate(SIZE, stream=stream)
    source.fill(7, stream=stream)
    opened_on = stream if how == "the stream of the copy" else other
    buffer = Buffer.from_ipc_descriptor(mr, descriptor, stream=opened_on)
    again = Buffer.from_ipc_descriptor(mr, descriptor, stream=other) if how == "a second user" else None
    go_on = blocked(stream)
    buffer.copy_from(source, stream=stream)
    if how in ("close(stream)", "a second user"):
        if again is not None:
            again.close(other)
        buffer.close(stream)
    elif how == "set_deallocation_stream":
        buffer.set_deallocation_stream(stream)
        buffer.close()
    else:
        buffer.close()
    if how == "the pool":
        mr.close()
        del mr
    other.sync()
    go_on()
    try:
        stream.sync()
        answer.send("copied")
    except CUDAError as error:
        answer.send(error.code)


@pytest.mark.parametrize(
    "how",
    [
        "close(stream)",
        "set_deallocation_stream",
        "the stream of the copy",
        "another stream",
        "a second user",
        pytest.param("the pool", marks=pytest.mark.cpu_only),  # not documented for a GPU
    ],
)
def test_copy_queued_before_close_completes(device, stream, how):
    mr = shared_pool(device)
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    assert in_another_process(copy_then_close, how, mr, buffer.ipc_descriptor) == "copied"
    assert content(buffer, stream) == b"\7" * SIZE


def count_mappings(mr: DeviceMemoryResource, descriptor: Any, answer: Any) -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    found = []

    def is_known(address: int) -> bool:
        return driver.cuMemGetAddressRange(address)[0] == 0

    first = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    second = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    address = first.handle
    found.append(second.handle == address)
    first.close(stream)
    stream.sync()
    found.append(is_known(address) and content(second, stream)[0] == 9)
    second.close(stream)
    stream.sync()
    found.append(is_known(address))
    third = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    found.append(content(third, stream)[0] == 9)
    answer.send(found)


def test_buffers_share_one_mapping_that_is_released_with_the_last(device, stream):
    mr = shared_pool(device)
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(9, stream=stream)
    stream.sync()
    assert in_another_process(count_mappings, mr, buffer.ipc_descriptor) == [True, True, False, True]


def too_large(mr: DeviceMemoryResource, descriptor: Any, answer: Any) -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    larger = type(descriptor)._make(descriptor._payload, 1 << 30)
    try:
        Buffer.from_ipc_descriptor(mr, larger, stream=stream)
        answer.send("opened")
    except ValueError as error:
        kept = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)  # the failed attempt leaves nothing
        answer.send(f"{'1073741824' in str(error)} {content(kept, stream)[0]}")


def test_descriptor_with_a_larger_size_raises_and_leaves_no_mapping(device, stream):
    mr = shared_pool(device)
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    assert in_another_process(too_large, mr, buffer.ipc_descriptor) == "True 3"


def reuse(mr: DeviceMemoryResource, pipe: Any) -> None:
    """Opens the received buffers one after the other; closes each before it opens the next."""
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    while (descriptor := pipe.recv()) is not None:
        buffer = Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
        data = content(buffer, stream)
        buffer.close(stream)
        stream.sync()
        pipe.send((len(data), set(data)))


def test_memory_that_the_exporter_reuses_is_mapped_correctly(device, stream):
    mr = shared_pool(device)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=reuse, args=(mr, there))
    process.start()
    there.close()
    for value, size in enumerate((1 << 20, 1 << 16, 3 << 16, 1 << 21), 1):
        lead = mr.allocate(1 << 16, stream=stream) if value % 2 else None  # so that allocations start at other offsets
        buffer = mr.allocate(size, stream=stream)
        buffer.fill(value, stream=stream)
        stream.sync()
        here.send(buffer.ipc_descriptor)
        assert here.recv() == (size, {value})
        buffer.close(stream)
        if lead is not None:
            lead.close(stream)
        stream.sync()  # gives the memory back to the system
    here.send(None)
    process.join()
    assert process.exitcode == 0


def open_inside_the_old(mr: DeviceMemoryResource, pipe: Any) -> None:
    """Opens a buffer at the address of a closed one while work queued before the close is unfinished."""
    device = Device(0)
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()
    old = Buffer.from_ipc_descriptor(mr, pipe.recv(), stream=other)
    copy = device.allocate(old.size, stream=stream)
    stream.sync()
    go_on = blocked(stream)
    copy.copy_from(old, stream=stream)
    old.close(other)
    other.sync()
    pipe.send("closed")
    new = Buffer.from_ipc_descriptor(mr, pipe.recv(), stream=other)
    go_on()
    stream.sync()
    other.sync()
    pipe.send(set(content(new, other)))


@pytest.mark.cpu_only  # the exporter frees memory that another process still reads, which is undefined in CUDA
def test_buffer_at_the_address_of_a_closed_one_stays_mapped(device, stream):
    mr = shared_pool(device)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=open_inside_the_old, args=(mr, there))
    process.start()
    there.close()
    old = mr.allocate(1 << 20, stream=stream)
    old.fill(1, stream=stream)
    stream.sync()
    here.send(old.ipc_descriptor)
    assert here.recv() == "closed"
    old.close(stream)
    stream.sync()  # gives the memory back to the system
    lead, new = mr.allocate(1 << 16, stream=stream), mr.allocate(1 << 16, stream=stream)
    new.fill(8, stream=stream)
    stream.sync()
    here.send(new.ipc_descriptor)
    assert here.recv() == {8}
    process.join()
    assert process.exitcode == 0
    lead.close(stream)
