# SPDX-License-Identifier: Apache-2.0
"""Buffer: copies, fills, lifetimes, foreign memory."""

import ctypes
import gc
import weakref

import pytest
from cuda.core import (
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    MemoryResource,
    PinnedMemoryResource,
    launch,
)


def test_bytes_are_copied_to_the_buffer_and_back(device, stream):
    data = bytes(range(256)) * 4
    buffer = device.allocate(len(data), stream=stream)
    buffer.copy_from(data, stream=stream)
    back = bytearray(len(data))
    assert buffer.copy_to(back, stream=stream) is back
    assert back == data
    buffer.close(stream)


def test_short_source_fills_the_start_and_long_source_raises(device, stream):
    buffer = device.allocate(8, stream=stream)
    buffer.fill(0, stream=stream)
    buffer.copy_from(b"abc", stream=stream)
    back = bytearray(8)
    buffer.copy_to(back, stream=stream)
    assert back == b"abc\0\0\0\0\0"
    with pytest.raises(ValueError, match="more than the buffer"):
        buffer.copy_from(bytes(9), stream=stream)
    with pytest.raises(TypeError):
        buffer.copy_from(3, stream=stream)
    with pytest.raises(TypeError, match="stream"):
        buffer.copy_from(b"abc")


@pytest.mark.parametrize("size", [0, 7, 9, 64])
def test_destination_of_another_size_raises(device, stream, size):
    buffer, target = device.allocate(8, stream=stream), bytearray(size)
    buffer.fill(1, stream=stream)
    with pytest.raises(ValueError, match=f"the destination has {size} bytes, the buffer 8"):
        buffer.copy_to(target, stream=stream)
    assert target == bytearray(size)


def test_copy_between_buffers_of_different_sizes_raises(device, stream):
    a, b = device.allocate(64, stream=stream), device.allocate(64, stream=stream)
    a.fill(7, stream=stream)
    a.copy_to(b, stream=stream)
    c = b.copy_to(stream=stream)
    assert isinstance(c, Buffer) and c.memory_resource is b.memory_resource
    back = bytearray(64)
    c.copy_to(back, stream=stream)
    assert back == b"\7" * 64
    with pytest.raises(ValueError, match="different sizes"):
        a.copy_from(device.allocate(32, stream=stream), stream=stream)


@pytest.mark.parametrize("pattern", [0, 255, b"\xab", b"\1\2", b"\1\2\3\4"])
def test_fill_repeats_the_pattern(device, stream, pattern):
    buffer = device.allocate(32, stream=stream)
    buffer.fill(pattern, stream=stream)
    back = bytearray(32)
    buffer.copy_to(back, stream=stream)
    unit = bytes([pattern]) if isinstance(pattern, int) else pattern
    assert back == unit * (32 // len(unit))


def test_fill_with_an_invalid_value_raises(device, stream):
    buffer = device.allocate(6, stream=stream)
    with pytest.raises(OverflowError):
        buffer.fill(256, stream=stream)
    with pytest.raises(OverflowError):
        buffer.fill(-1, stream=stream)
    with pytest.raises(ValueError, match="1, 2 or 4"):
        buffer.fill(b"abc", stream=stream)
    with pytest.raises(ValueError, match="multiple"):
        buffer.fill(b"abcd", stream=stream)
    with pytest.raises(TypeError):
        buffer.fill("a", stream=stream)


def test_close_is_idempotent_and_final(device, stream):
    buffer = device.allocate(16, stream=stream)
    buffer.close(stream)
    buffer.close()
    assert buffer.is_closed and buffer.size == 0
    with pytest.raises(RuntimeError, match="closed"):
        buffer.fill(0, stream=stream)
    with device.allocate(16, stream=stream) as scoped:
        assert not scoped.is_closed
    assert scoped.is_closed


def test_buffer_is_usable_after_its_stream_is_closed(device):
    stream = device.create_stream()
    buffer = device.allocate(1 << 16, stream=stream)
    buffer.fill(1, stream=stream)
    stream.close()
    buffer.close()


def test_size_zero_is_allowed_and_invalid_sizes_raise(device, stream):
    empty = device.allocate(0, stream=stream)
    assert empty.size == 0
    empty.close()
    with pytest.raises(ValueError):
        device.allocate(-1, stream=stream)
    with pytest.raises(TypeError):
        device.allocate("many", stream=stream)


def test_out_of_memory_is_a_memory_error_and_the_next_call_works(device, stream):
    from cuda.core import CUDAError

    with pytest.raises(MemoryError) as caught:
        device.allocate(1 << 60, stream=stream)
    assert isinstance(caught.value, CUDAError) and caught.value.code == 2
    device.allocate(16, stream=stream).close()


def test_buffer_from_handle_does_not_own_the_memory(device, stream):
    original = device.allocate(64, stream=stream)

    class Owner:
        pass

    owner = Owner()
    ref = weakref.ref(owner)
    view = Buffer.from_handle(ptr=original.handle, size=64, owner=owner)
    del owner
    gc.collect()
    assert ref() is not None and view.owner is ref() and view.memory_resource is None
    assert view.is_device_accessible and not view.is_host_accessible and view.device_id == 0
    view.fill(9, stream=stream)
    view.close()
    gc.collect()
    assert ref() is None
    back = bytearray(64)
    original.copy_to(back, stream=stream)
    assert back == b"\11" * 64
    with pytest.raises(ValueError):
        Buffer.from_handle(1, 1, mr=DeviceMemoryResource(device), owner=object())


def test_python_memory_resource_deallocates_its_buffers(device, stream):
    class Counting(MemoryResource):
        def __init__(self):
            self.inner = DeviceMemoryResource(0)
            self.returned = []

        def allocate(self, size, *, stream):
            buffer = self.inner.allocate(size, stream=stream)
            self.keep = buffer
            return Buffer.from_handle(buffer.handle, size, mr=self, stream=stream)

        def deallocate(self, ptr, size, *, stream):
            self.returned.append((int(ptr), size, stream))

        is_device_accessible = True
        is_host_accessible = False
        device_id = 0

    mr = Counting()
    buffer = mr.allocate(128, stream=stream)
    address = buffer.handle
    buffer.fill(1, stream=stream)
    buffer.close()
    assert mr.returned[0][:2] == (address, 128) and mr.returned[0][2] == stream


def test_buffer_protocol_works_for_host_memory_and_raises_for_device_memory(device, stream):
    host = LegacyPinnedMemoryResource().allocate(16)
    view = memoryview(host)
    view[:4] = b"\1\2\3\4"
    assert bytes(memoryview(host)[:4]) == b"\1\2\3\4"
    assert host.is_host_accessible and host.is_device_accessible and host.device_id == -1
    del view
    host.close()
    with pytest.raises(BufferError, match="device memory"):
        memoryview(device.allocate(16, stream=stream))


def test_pinned_memory_is_copied_to_the_device_and_back(device, stream):
    pinned = PinnedMemoryResource()
    host = pinned.allocate(1024, stream=stream)
    stream.sync()
    memoryview(host)[:] = b"\5" * 1024
    dev = device.allocate(1024, stream=stream)
    dev.copy_from(host, stream=stream)
    host2 = pinned.allocate(1024, stream=stream)
    dev.copy_to(host2, stream=stream)
    stream.sync()
    assert bytes(memoryview(host2)) == b"\5" * 1024
    for buffer in (host, host2, dev):
        buffer.close(stream)


def test_equality_and_hash_follow_the_memory(device, stream):
    buffer = device.allocate(16, stream=stream)
    view = Buffer.from_handle(buffer.handle, 16)
    assert view == buffer and hash(view) == hash(buffer)
    assert buffer != device.allocate(16, stream=stream)
    assert weakref.ref(buffer)() is buffer
    with pytest.raises(RuntimeError):
        Buffer()


def test_ctypes_array_is_accepted_as_host_memory(device, stream):
    data = (ctypes.c_int * 4)(1, 2, 3, 4)
    buffer = device.allocate(16, stream=stream)
    buffer.copy_from(data, stream=stream)
    back = (ctypes.c_int * 4)()
    buffer.copy_to(back, stream=stream)
    assert list(back) == [1, 2, 3, 4]


def test_memory_is_freed_in_order_on_the_given_stream(device, stream, kernel):
    """Memory that is freed in stream order must not be reused before the stream reaches the release."""
    flag = LegacyPinnedMemoryResource().allocate(4)
    ctypes.memset(flag.handle, 0, 4)
    slow = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=64 << 20))
    buffer = pool.allocate(1 << 20, stream=stream)
    address = buffer.handle
    slow.wait(stream)
    try:
        launch(slow, LaunchConfig(grid=1, block=1), kernel("spin"), flag)
        buffer.set_deallocation_stream(slow)
        buffer.close()
        other = pool.allocate(1 << 20, stream=stream)
        # The kernel before the release still runs: a new owner of the memory must wait for it.
        assert other.handle != address or not stream.record().is_done
    finally:
        ctypes.memset(flag.handle, 1, 4)
    other.close(slow)  # or passed to close()
    slow.sync()
    assert pool.attributes.used_mem_current == 0
    pool.close()


def test_reused_buffer_object_keeps_no_state(device, stream):
    """Buffer objects are recycled and must not keep state of the previous buffer."""
    gone: list[object] = []
    for size in (16, 32, 48):
        buffer = device.allocate(size, stream=stream)
        weakref.finalize(buffer, gone.append, size)
        seen = weakref.ref(buffer)
        assert buffer.size == size and not buffer.is_mapped and seen() is buffer
        buffer.close(stream)
        assert buffer.handle == 0 and buffer.size == 0
        del buffer
        assert seen() is None
    assert gone == [16, 32, 48]
    left_open = [
        device.allocate(64, stream=stream) for _ in range(200)
    ]  # more than the free list holds, none of them closed
    addresses = {int(buffer.handle) for buffer in left_open}
    assert len(addresses) == 200
    del left_open
    gc.collect()
    again = [device.allocate(64, stream=stream) for _ in range(200)]
    assert len({int(buffer.handle) for buffer in again}) == 200 and all(buffer.size == 64 for buffer in again)
    gc.collect()
    for buffer in again:
        buffer.close(stream)


def test_second_close_on_another_stream_does_nothing(device, stream):
    other = device.create_stream()
    buffer = device.allocate(64, stream=stream)
    buffer.close(other)
    buffer.close(other)
    buffer.close()
    buffer = device.allocate(64, stream=stream)
    view = memoryview(LegacyPinnedMemoryResource().allocate(8))
    assert len(view) == 8
    buffer.close(stream)
    buffer.close(stream)
    assert buffer.size == 0


def test_stream_and_pool_are_kept_by_their_last_buffer(device):
    """Buffers of one stream and one pool keep both alive, in any order of closing, transfer and deletion."""
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=64 << 20))
    device.memory_resource, before = pool, device.memory_resource
    try:
        stream, other = device.create_stream(), device.create_stream()
        buffers = [device.allocate(4096, stream=stream) for _ in range(6)]
        apart = device.allocate(4096, stream=other)
        data = bytes(range(256)) * 16
        stream.wait(other)  # the stream of the last buffer
        for buffer in (*buffers, apart):
            buffer.copy_from(data, stream=stream)
        other.wait(stream)
        stream.close()
        pool.close()
        buffers[0].close()
        buffers[1].set_deallocation_stream(other)
        buffers[2].close(other)
        del buffers[3]
        for buffer in (buffers[1], buffers[3], buffers[4], apart):
            back = bytearray(4096)
            buffer.copy_to(back, stream=other)
            other.sync()
            assert back == data
        other.close()
        for buffer in (*buffers, apart, apart):
            buffer.close()
            assert buffer.size == 0 and buffer.handle == 0
    finally:
        device.memory_resource = before
    device.sync()
