"""Managed memory told where it will be needed, one buffer or many at a time."""

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


def test_contents_survive_prefetching_there_and_back(device, stream, buffers):
    with unsupported_is_skipped():
        for place in (device, Host()):
            for buffer in buffers:
                buffer.prefetch(place, stream=stream)
        prefetch_batch(stream, buffers, device)
        prefetch_batch(stream, buffers, [Host(), device, Host()])
    stream.sync()
    assert [bytes(buffer)[:2] for buffer in buffers] == [bytes([number]) * 2 for number in range(3)]


def test_what_is_discarded_can_be_written_again(device, stream, buffers):
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


def test_discarded_memory_goes_back_to_its_pool_as_any_other(device, stream):
    """The next owner's writes must not be lost."""
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


def test_copies_go_in_one_call(device, stream, buffers):
    there = [device.allocate(buffer.size, stream=stream) for buffer in buffers]
    with unsupported_is_skipped():
        copy_batch(stream, buffers, there)
    for number, buffer in enumerate(there):
        assert set(buffer.copy_to(bytearray(buffer.size), stream=stream)) == {number}


def test_mistakes_are_named(device, stream, buffers):
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


def test_managed_memory_is_not_shared_with_other_processes_and_the_page_of_deviations_says_so(device, stream):
    resource = ManagedMemoryResource()
    assert not resource.is_ipc_enabled and not resource.is_mapped
    with resource.allocate(64, stream=stream) as buffer, pytest.raises(RuntimeError, match="no driver exports managed"):
        buffer.ipc_descriptor  # noqa: B018
    told = json.loads((Path(__file__).resolve().parents[3] / "api/deviations.json").read_text())
    assert "ManagedBuffer.ipc_descriptor" in told["cuda.core behaviour"]


def test_who_keeps_a_mapping_is_a_live_set(device, stream):
    with ManagedMemoryResource().allocate(4096, stream=stream) as buffer:
        stream.sync()
        users = buffer.accessed_by
        assert device not in users and len(users) == 0
        with unsupported_is_skipped():
            users.add(device)
        assert device in users and set(users) == {device} and buffer.accessed_by == {device}
        users.discard(device)
        assert device not in users and "AccessedBySetProxy" not in repr(users)


def test_no_batch_is_queued_in_the_legacy_default_stream(device, stream, buffers):
    plain = [device.allocate(16, stream=stream) for _ in range(2)]
    legacy = LEGACY_DEFAULT_STREAM
    for name, call in (
        ("prefetch_batch", lambda: prefetch_batch(legacy, buffers, device)),
        ("discard_batch", lambda: discard_batch(legacy, buffers)),
        ("discard_prefetch_batch", lambda: discard_prefetch_batch(legacy, buffers, device)),
        ("copy_batch", lambda: copy_batch(legacy, plain[:1], plain[1:])),
    ):
        with pytest.raises(
            CUDAError, match=f"INVALID_VALUE: {name}: no batch can be queued in the legacy default stream"
        ):
            call()
    with unsupported_is_skipped():
        prefetch_batch(PER_THREAD_DEFAULT_STREAM, buffers, device)
    PER_THREAD_DEFAULT_STREAM.sync()
