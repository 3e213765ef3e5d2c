# SPDX-License-Identifier: Apache-2.0
"""Calls that queue work release the GIL for threads and host functions that need it.

Python's switch interval is set so long that only a call that releases the GIL lets other threads run. A real deadlock needs a
full queue of the driver, which takes longer and looks the same.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver
from cuda.core import LaunchConfig, launch

ONE = LaunchConfig(grid=1, block=1)
MANY = 1_000_000  # until another thread has run: a busy machine wakes threads late
CALLS = (
    "launch",
    "graph launch",
    "record",
    "record a new one",
    "wait for an event",
    "wait for a stream",
    "allocate and free",
    "launch of the bindings",
    "fill of the bindings",
    "allocate and free of the bindings",
)


@pytest.fixture(autouse=True)
def no_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def calls(device: Any, kernel: Callable[[str], Any]) -> dict[str, Callable[[], object]]:
    stream, other = device.create_stream(), device.create_stream()
    nothing = kernel("nothing")
    builder = stream.create_graph_builder().begin_building()
    launch(builder, ONE, nothing)
    graph = builder.end_building().complete()
    event = stream.record()
    launch(stream, ONE, nothing)
    graph.launch(stream)
    code, function = driver.cuKernelGetFunction(nothing.handle)
    assert code == driver.CUresult.CUDA_SUCCESS

    def bindings_launch() -> None:
        assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream.handle, ((), ()), 0)[0] == 0

    memory = device.allocate(64, stream=stream)

    def bindings_allocate() -> None:
        code, address = driver.cuMemAllocAsync(64, stream.handle)
        assert code == 0 and driver.cuMemFreeAsync(address, stream.handle) == (0,)

    bindings_launch()  # from the second allocation on it may keep the GIL
    stream.sync()
    return {
        "launch": lambda: launch(stream, ONE, nothing),
        "graph launch": lambda: graph.launch(stream),
        "record": lambda: stream.record(event),
        "record a new one": lambda: stream.record(),
        "wait for an event": lambda: stream.wait(event),
        "wait for a stream": lambda: stream.wait(other),
        "allocate and free": lambda: device.allocate(64, stream=stream).close(stream),
        "launch of the bindings": bindings_launch,
        "fill of the bindings": lambda: driver.cuMemsetD8Async(memory.handle, 0, 64, stream.handle),
        "allocate and free of the bindings": bindings_allocate,
    }


@pytest.mark.promise("Host callbacks cannot deadlock with a waiting caller")
@pytest.mark.parametrize("name", CALLS)
def test_host_function_gets_the_gil_during_calls_that_queue_work(device, calls, name) -> None:
    behind = device.create_stream()
    ran = threading.Event()
    assert driver.cuLaunchHostFunc(behind.handle, lambda _: ran.set(), None) == (driver.CUresult.CUDA_SUCCESS,)
    call = calls[name]
    for _ in range(MANY):
        call()
        if ran.is_set():
            break
    assert ran.is_set()
    device.sync()


@pytest.mark.parametrize("name", ["launch", "graph launch", "launch of the bindings", "fill of the bindings"])
def test_another_thread_gets_the_gil_between_launches(device, calls, name) -> None:
    turn = threading.Event()

    def other() -> None:
        time.sleep(0.001)  # releases the GIL and acquires it again
        turn.set()

    thread = threading.Thread(target=other)
    call = calls[name]
    call()
    thread.start()
    for _ in range(MANY):
        call()
        if turn.is_set():
            break
    assert turn.is_set()
    thread.join()
    device.sync()
