# SPDX-License-Identifier: Apache-2.0
"""Event nodes: a graph launch records events and waits for them as the stream calls would at that time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

NOT_READY = d.CUresult.CUDA_ERROR_NOT_READY
OK = d.CUresult.CUDA_SUCCESS
EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL


class Flags:
    """Pinned memory words that streams wait for and the host sets."""

    def __init__(self, check: Callable[[tuple[Any, ...]], Any]) -> None:
        self.host = check(d.cuMemHostAlloc(64, d.CU_MEMHOSTALLOC_DEVICEMAP))
        self.device = int(check(d.cuMemHostGetDevicePointer(self.host, 0)))
        self.words = (ctypes.c_uint * 16).from_address(int(self.host))
        self.check = check

    def wait(self, stream: Any, index: int) -> None:
        self.check(
            d.cuStreamWaitValue32(stream, self.device + 4 * index, 1, d.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ)
        )

    def __setitem__(self, index: int, value: int) -> None:
        self.words[index] = value


@pytest.fixture
def flags(context: Any, check: Any) -> Iterator[Flags]:
    made = Flags(check)
    ctypes.memset(ctypes.addressof(made.words), 0, 64)
    yield made
    check(d.cuMemFreeHost(made.host))


@pytest.fixture
def event(context: Any, check: Any) -> Iterator[Any]:
    made = check(d.cuEventCreate(0))
    yield made
    check(d.cuEventDestroy(made))


@pytest.fixture
def other(context: Any, check: Any) -> Iterator[Any]:
    made = check(d.cuStreamCreate(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
    yield made
    check(d.cuStreamDestroy(made))


def captured(check: Any, stream: Any, work: Callable[[], None]) -> Any:
    check(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    work()
    graph = check(d.cuStreamEndCapture(stream))
    made = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphDestroy(graph))
    return made


def test_every_graph_launch_records_the_event(check: Any, stream: Any, other: Any, event: Any, flags: Flags) -> None:
    def work() -> None:
        flags.wait(stream, 0)
        check(d.cuEventRecordWithFlags(event, stream, EXTERNAL))

    graph = captured(check, stream, work)
    assert d.cuEventQuery(event)[0] == OK  # no launch, no record
    for _ in range(3):
        flags[0] = 0
        check(d.cuGraphLaunch(graph, stream))
        assert d.cuEventQuery(event)[0] == NOT_READY
        check(d.cuStreamWaitEvent(other, event, 0))
        assert d.cuStreamQuery(other)[0] == NOT_READY
        flags[0] = 1
        check(d.cuEventSynchronize(event))
        check(d.cuStreamSynchronize(other))
        check(d.cuStreamSynchronize(stream))
    check(d.cuGraphExecDestroy(graph))


def test_event_completes_before_its_graph_ends(check: Any, stream: Any, other: Any, event: Any, flags: Flags) -> None:
    def work() -> None:
        flags.wait(stream, 0)
        check(d.cuEventRecordWithFlags(event, stream, EXTERNAL))
        flags.wait(stream, 1)

    graph = captured(check, stream, work)
    check(d.cuGraphLaunch(graph, stream))
    check(d.cuStreamWaitEvent(other, event, 0))
    flags[0] = 1
    check(d.cuEventSynchronize(event))
    check(d.cuStreamSynchronize(other))
    assert d.cuStreamQuery(stream)[0] == NOT_READY
    flags[1] = 1
    check(d.cuStreamSynchronize(stream))
    check(d.cuGraphExecDestroy(graph))


def test_graph_waits_for_the_record_at_its_launch(
    check: Any, stream: Any, other: Any, event: Any, flags: Flags
) -> None:
    graph = captured(check, stream, lambda: check(d.cuStreamWaitEvent(stream, event, EXTERNAL)))
    check(d.cuEventRecord(event, other))
    flags.wait(stream, 0)
    check(d.cuGraphLaunch(graph, stream))
    check(d.cuEventRecord(event, stream))  # recorded after the graph, which must not wait for itself
    flags[0] = 1
    check(d.cuStreamSynchronize(stream))
    assert d.cuEventQuery(event)[0] == OK
    check(d.cuGraphExecDestroy(graph))
