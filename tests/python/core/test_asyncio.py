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


async def waited(thing):
    await thing


@pytest.fixture
def flag():
    """Zero until it is set. The kernel that waits for it only reads: on a GPU an atomic operation on the host's memory reads and
    writes back, and what the host stores in between is lost."""
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


def test_a_wait_leaves_a_capture_of_another_task_alone(device, stream, kernel, flag):
    """A capture in its strictest mode is lost when anyone asks for an event; a loop that waits asks all the time."""
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


def test_a_loop_may_end_before_the_work(device, kernel, flag):
    held = held_back(device, kernel, flag)

    async def main():
        asyncio.get_running_loop().create_task(waited(held))
        await asyncio.sleep(0)

    asyncio.run(main())  # cancels what still waits
    assert not held.is_done
    ctypes.memset(flag.handle, 1, 4)
    asyncio.run(waited(held))  # another loop, the same stream
    assert held.is_done


def test_host_functions_run_while_the_loop_waits(device, stream):
    """They need the interpreter's lock, in a thread of the driver's."""
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
