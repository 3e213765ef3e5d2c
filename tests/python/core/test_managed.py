# SPDX-License-Identifier: Apache-2.0
"""Prefetch, discard and batch copies of managed memory, for one buffer or several."""

import contextlib
import json
from pathlib import Path

import pytest
from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, CUDAError, Device, Host, ManagedMemoryResource
from cuda.core.utils import copy_batch, discard_batch, discard_prefetch_batch, prefetch_batch


@contextlib.contextmanager
def unsupported_is_skipped():
    try:
        yield
    except CUDAError as error:
        if error.name != "CUDA_ERROR_NOT_SUPPORTED":
            raise
        pytest.skip(str(error))


@pytest.fixture
def buffers(device, stream):
    with unsupported_is_skipped():
        resource = ManagedMemoryResource()
        made = [resource.allocate(1 << 16, stream=stream) for _ in range(3)]
    stream.sync()
    for number, buffer in enumerate(made):
        memoryview(buffer)[:] = bytes([number]) * buffer.size
    return made


def test_prefetch_in_both_directions_preserves_contents(device, stream, buffers):
    with unsupported_is_skipped():
        for place in (device, Host()):
            for buffer in buffers:
                buffer.prefetch(place, stream=stream)
        prefetch_batch(stream, buffers, device)
        prefetch_batch(stream, buffers, [Host(), device, Host()])
    stream.sync()
    assert [bytes(buffer)[:2] for buffer in buffers] == [bytes([number]) * 2 for number in range(3)]


def test_discarded_memory_can_be_written(device, stream, buffers):
    with unsupported_is_skipped():
        discard_batch(stream, buffers)
        discard_prefetch_batch(stream, buffers, device)
        buffers[0].discard(stream=stream)
        buffers[0].prefetch(device, stream=stream)
        buffers[1].discard_prefetch(Host(), stream=stream)
    for buffer in buffers:
        buffer.fill(7, stream=stream)
    stream.sync()
    assert all(set(bytes(buffer)) == {7} for buffer in buffers)


def test_discarded_memory_returns_to_its_pool(device, stream):
    """Writes of the next owner must not be discarded."""
    resource = ManagedMemoryResource()
    for value in (7, 8, 9):
        with unsupported_is_skipped():
            buffer = resource.allocate(1 << 16, stream=stream)
            stream.sync()
            memoryview(buffer)[:] = bytes([value]) * buffer.size
            there = device.allocate(buffer.size, stream=stream)
            there.copy_from(buffer, stream=stream)
            assert set(there.copy_to(bytearray(buffer.size), stream=stream)) == {value}
            buffer.discard(stream=stream)
            buffer.close(stream)


def test_batch_copy_copies_every_buffer(device, stream, buffers):
    there = [device.allocate(buffer.size, stream=stream) for buffer in buffers]
    with unsupported_is_skipped():
        copy_batch(stream, buffers, there)
    for number, buffer in enumerate(there):
        assert set(buffer.copy_to(bytearray(buffer.size), stream=stream)) == {number}


def test_wrong_managed_argument_raises_an_error_that_names_it(device, stream, buffers):
    with pytest.raises(ValueError, match="only managed buffers"):
        prefetch_batch(stream, [device.allocate(16, stream=stream)], device)
    with pytest.raises(ValueError, match="3 buffers but 1 locations"):
        prefetch_batch(stream, buffers, [device])
    with pytest.raises(TypeError, match="a location must be a Device or a Host"):
        prefetch_batch(stream, buffers, "there")
    with pytest.raises(ValueError, match="3 sources but 2 destinations"):
        copy_batch(stream, buffers, buffers[:2])
    discard_batch(stream, [])
    assert Device(0) == device


def test_managed_memory_has_no_ipc_and_is_a_documented_deviation(device, stream):
    resource = ManagedMemoryResource()
    assert not resource.is_ipc_enabled and not resource.is_mapped
    with resource.allocate(64, stream=stream) as buffer, pytest.raises(RuntimeError, match="no driver exports managed"):
        buffer.ipc_descriptor  # noqa: B018
    told = json.loads((Path(__file__).resolve().parents[3] / "api/deviations.json").read_text())
    assert "ManagedBuffer.ipc_descriptor" in told["cuda.core behaviour"]


def test_accessed_by_is_a_live_set(device, stream):
    with ManagedMemoryResource().allocate(4096, stream=stream) as buffer:
        stream.sync()
        users = buffer.accessed_by
        assert device not in users and len(users) == 0
        with unsupported_is_skipped():
            users.add(device)
        assert device in users and set(users) == {device} and buffer.accessed_by == {device}
        users.discard(device)
        assert device not in users and "AccessedBySetProxy" not in repr(users)


def test_batch_on_the_legacy_default_stream_raises(device, stream, buffers):
    legacy = LEGACY_DEFAULT_STREAM
    for name, call in (
        ("prefetch_batch", lambda: prefetch_batch(legacy, buffers, device)),
        ("discard_batch", lambda: discard_batch(legacy, buffers)),
        ("discard_prefetch_batch", lambda: discard_prefetch_batch(legacy, buffers, device)),
    ):
        with pytest.raises(
            CUDAError, match=f"INVALID_VALUE: {name}: no batch can be queued in the legacy default stream"
        ):
            call()
    with unsupported_is_skipped():
        prefetch_batch(PER_THREAD_DEFAULT_STREAM, buffers, device)
    PER_THREAD_DEFAULT_STREAM.sync()
