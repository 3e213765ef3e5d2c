"""Streams and events in asyncio code: many waits at once, on the thread of the event loop alone."""

from __future__ import annotations

import asyncio
import ctypes
import threading

import pytest
from cuda.core import CUDAError, LaunchConfig, LegacyPinnedMemoryResource, launch

ONE = LaunchConfig(grid=1, block=1)


def held_back(device, kernel, flag):
    """A stream whose work ends when the flag is set."""
    stream = device.create_stream()
    launch(stream, ONE, kernel("spin"), flag)
    return stream


@pytest.fixture
def flag():
    buffer = LegacyPinnedMemoryResource().allocate(4)
    ctypes.memset(buffer.handle, 0, 4)
    yield buffer
    ctypes.memset(buffer.handle, 1, 4)


def test_a_hundred_waits_need_no_thread(device, kernel, flag):
    stream = held_back(device, kernel, flag)
    events = [stream.record() for _ in range(99)]
    threads = threading.active_count()
    seen = []

    async def wait(thing):
        await thing
        seen.append(threading.get_ident())

    async def main():
        tasks = [asyncio.create_task(wait(thing)) for thing in (stream, *events)]
        await asyncio.sleep(0.05)  # all of them wait, and the loop goes on
        assert threading.active_count() == threads and not seen
        ctypes.memset(flag.handle, 1, 4)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert seen == [threading.get_ident()] * 100


def test_other_tasks_run_meanwhile_and_a_wait_can_be_cancelled(device, kernel, flag):
    stream = held_back(device, kernel, flag)

    async def wait():
        await stream

    async def main():
        task = asyncio.create_task(wait())
        turns = 0
        while turns < 20:
            await asyncio.sleep(0)
            turns += 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.02)

    asyncio.run(main())
    assert not stream.is_done
    ctypes.memset(flag.handle, 1, 4)
    stream.sync()


def test_what_is_done_does_not_wait(stream):
    async def main():
        await stream
        await stream.record()

    stream.sync()
    asyncio.run(main())


def test_a_closed_event_cannot_be_awaited(stream):
    event = stream.record()
    event.close()

    async def main():
        await event

    with pytest.raises((RuntimeError, CUDAError), match="closed"):
        asyncio.run(main())
