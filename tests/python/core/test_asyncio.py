# SPDX-License-Identifier: Apache-2.0
"""Streams and events in asyncio: concurrent awaits on the thread of the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import threading

import pytest
from cuda.core import CUDAError, LaunchConfig, LegacyPinnedMemoryResource, launch

ONE = LaunchConfig(grid=1, block=1)


def held_back(device, kernel, flag):
    """A stream with a kernel that ends when the flag is set."""
    stream = device.create_stream()
    launch(stream, ONE, kernel("spin"), flag)
    return stream


async def waited(thing):
    await thing


@pytest.fixture
def flag():
    """A flag in host memory, initially zero. The waiting kernel only reads it: an atomic operation of a GPU on host memory
    reads and writes back, and would overwrite a store of the host."""
    buffer = LegacyPinnedMemoryResource().allocate(4)
    ctypes.memset(buffer.handle, 0, 4)
    yield buffer
    ctypes.memset(buffer.handle, 1, 4)


def test_hundred_awaits_create_no_thread(device, kernel, flag):
    stream = held_back(device, kernel, flag)
    events = [stream.record() for _ in range(99)]
    threads = threading.active_count()
    seen = []

    async def wait(thing):
        await thing
        seen.append(threading.get_ident())

    async def main():
        tasks = [asyncio.create_task(wait(thing)) for thing in (stream, *events)]
        await asyncio.sleep(0.05)  # all tasks wait, and the event loop keeps running
        assert threading.active_count() == threads and not seen
        ctypes.memset(flag.handle, 1, 4)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert seen == [threading.get_ident()] * 100


def test_other_tasks_run_during_an_await_which_can_be_cancelled(device, kernel, flag):
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


def test_await_of_completed_work_returns_at_once(stream):
    async def main():
        await stream
        await stream.record()

    stream.sync()
    asyncio.run(main())


def test_await_of_a_closed_event_raises(stream):
    event = stream.record()
    event.close()

    async def main():
        await event

    with pytest.raises((RuntimeError, CUDAError), match="closed"):
        asyncio.run(main())


def test_await_does_not_invalidate_a_capture_of_another_task(device, stream, kernel, flag):
    """An event query invalidates a capture in global mode, and an awaiting event loop queries events continuously."""
    held = held_back(device, kernel, flag)
    event = held.record()

    async def capture():
        builder = stream.create_graph_builder().begin_building("global")
        for _ in range(10):
            launch(builder, ONE, kernel("nothing"))
            await asyncio.sleep(0.002)
        return builder.end_building().complete()

    async def main():
        waits = [asyncio.create_task(waited(thing)) for thing in (held, event)]
        graph = await capture()
        ctypes.memset(flag.handle, 1, 4)
        await asyncio.gather(*waits)
        graph.launch(stream)
        await stream

    asyncio.run(main())


def test_event_loop_can_end_before_the_work(device, kernel, flag):
    held = held_back(device, kernel, flag)

    async def main():
        asyncio.get_running_loop().create_task(waited(held))
        await asyncio.sleep(0)

    asyncio.run(main())  # cancels the remaining waits
    assert not held.is_done
    ctypes.memset(flag.handle, 1, 4)
    asyncio.run(waited(held))  # another loop, the same stream
    assert held.is_done


def test_host_functions_run_while_the_event_loop_awaits(device, stream):
    """Host functions need the GIL in a thread of the driver."""
    order = []

    async def main():
        for turn in range(5):
            builder = stream.create_graph_builder().begin_building()
            builder.callback(lambda turn=turn: order.append(turn))
            graph = builder.end_building().complete()
            graph.launch(stream)
            await stream
            order.append("awaited")

    asyncio.run(main())
    assert order == [x for turn in range(5) for x in (turn, "awaited")]
