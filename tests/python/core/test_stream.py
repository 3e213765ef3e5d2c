# SPDX-License-Identifier: Apache-2.0
"""Stream: queues, foreign streams, default streams."""

import asyncio
import gc
import weakref

import pytest
from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream, StreamOptions


def test_stream_options_accept_a_class_a_dict_or_none(device):
    assert device.create_stream().is_nonblocking
    assert not device.create_stream(options=StreamOptions(nonblocking=False)).is_nonblocking
    assert not device.create_stream(options={"nonblocking": False}).is_nonblocking
    with pytest.raises(TypeError):
        device.create_stream(options={"nonblocking": False, "colour": 1})
    with pytest.raises(TypeError):
        device.create_stream(options=3)


def test_priority_out_of_range_raises(device):
    assert device.create_stream(options=StreamOptions(priority=0)).priority == 0
    with pytest.raises(ValueError, match="out of range"):
        device.create_stream(options=StreamOptions(priority=1000))


def test_default_streams_have_their_handles():
    assert int(LEGACY_DEFAULT_STREAM.handle) == 1
    assert int(PER_THREAD_DEFAULT_STREAM.handle) == 2
    assert LEGACY_DEFAULT_STREAM.__cuda_stream__() == (0, 1)


def test_foreign_stream_is_used_and_kept_alive(device, stream):
    class Foreign:
        def __cuda_stream__(self):
            return (0, int(stream.handle))

    foreign = Foreign()
    ref = weakref.ref(foreign)
    mine = device.create_stream(foreign)
    assert mine == stream and int(mine.handle) == int(stream.handle)
    del foreign
    gc.collect()
    assert ref() is not None
    mine.close()
    gc.collect()
    assert ref() is None
    again = Stream.from_handle(int(stream.handle))
    assert again == stream and hash(again) == hash(stream)
    again.sync()


def test_wrong_stream_protocol_raises(device):
    class Newer:
        def __cuda_stream__(self):
            return (1, 0)

    with pytest.raises(RuntimeError, match="version 1"):
        device.create_stream(Newer())
    with pytest.raises(TypeError, match="__cuda_stream__"):
        device.create_stream(object())
    with pytest.raises(TypeError, match="stream"):
        device.allocate(16, stream=object())


def test_wait_accepts_events_and_streams(device, stream):
    other = device.create_stream()
    stream.wait(other)
    stream.wait(other.record())
    with pytest.raises(ValueError):
        stream.wait(object())
    stream.sync()


def test_closed_stream_raises(device):
    stream = device.create_stream()
    stream.close()
    stream.close()
    assert stream.is_closed
    for call in (stream.sync, stream.record, lambda: device.allocate(16, stream=stream)):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_with_statement_closes_a_constructed_stream(device):
    with Stream() as stream:
        assert stream.is_nonblocking and stream.device == device
    assert stream.is_closed
    with pytest.raises(ZeroDivisionError), Stream() as stream:
        1 / 0  # noqa: B018
    assert stream.is_closed


def test_streams_can_be_awaited(device, stream):
    buffer = device.allocate(1 << 20, stream=stream)

    async def work():
        buffer.fill(1, stream=stream)
        await stream
        await stream.record()
        return stream.is_done

    assert asyncio.run(work())
    buffer.close()


def test_stream_returns_its_context_and_device(device, stream):
    assert stream.device is device
    assert stream.context == device.context
