# SPDX-License-Identifier: Apache-2.0
"""Graph memory is allocated from the launch to its free, even if the graph is destroyed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

INVALID_VALUE = d.CUresult.CUDA_ERROR_INVALID_VALUE
RELAXED = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
AUTO_FREE = int(d.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
WORDS = 16


class Gate:
    """Work queued after wait() starts when the host opens the gate."""

    def __init__(self, check: Any) -> None:
        self.check = check
        self.host = check(d.cuMemHostAlloc(4096, d.CU_MEMHOSTALLOC_DEVICEMAP))
        self.device = int(check(d.cuMemHostGetDevicePointer(self.host, 0)))
        self.word = ctypes.c_uint.from_address(int(self.host))
        # pinned: copies to it do not wait for the gate
        self.found = (ctypes.c_uint * WORDS).from_address(int(self.host) + 2048)

    def wait(self, stream: Any) -> None:
        self.word.value = 0
        self.check(d.cuStreamWaitValue32(stream, self.device, 1, d.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ))

    def open(self, stream: Any) -> None:
        self.word.value = 1
        self.check(d.cuStreamSynchronize(stream))


@pytest.fixture
def gate(context: Any, check: Any) -> Iterator[Gate]:
    made = Gate(check)
    yield made
    made.word.value = 1
    check(d.cuCtxSynchronize())
    check(d.cuMemFreeHost(made.host))


def allocating(check: Any, stream: Any, value: int) -> tuple[Any, int]:
    """A graph that allocates and sets memory, and the memory's address."""
    check(d.cuStreamBeginCapture(stream, RELAXED))
    memory = int(check(d.cuMemAllocAsync(4 * WORDS, stream)))
    check(d.cuMemsetD32Async(memory, value, WORDS, stream))
    return check(d.cuStreamEndCapture(stream)), memory


def words(check: Any, memory: int, stream: Any) -> list[int]:
    found = (ctypes.c_uint * WORDS)()
    check(d.cuMemcpyDtoHAsync(ctypes.addressof(found), memory, 4 * WORDS, stream))
    check(d.cuStreamSynchronize(stream))
    return list(found)


def test_graph_memory_outlives_its_graph_until_it_is_freed(check: Any, stream: Any, gate: Gate) -> None:
    graph, memory = allocating(check, stream, 17)
    executable = check(d.cuGraphInstantiate(graph, 0))
    gate.wait(stream)
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))
    gate.open(stream)
    assert words(check, memory, stream) == [17] * WORDS
    check(d.cuMemsetD32Async(memory, 18, WORDS, stream))
    assert words(check, memory, stream) == [18] * WORDS
    check(d.cuMemFreeAsync(memory, stream))
    check(d.cuStreamSynchronize(stream))


def test_graph_memory_is_freed_by_another_graph(check: Any, stream: Any, gate: Gate) -> None:
    graph, memory = allocating(check, stream, 5)
    takes = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuStreamBeginCapture(stream, RELAXED))
    check(d.cuMemcpyDtoHAsync(ctypes.addressof(gate.found), memory, 4 * WORDS, stream))
    check(d.cuMemFreeAsync(memory, stream))
    other = check(d.cuStreamEndCapture(stream))
    gives = check(d.cuGraphInstantiate(other, 0))
    for _ in range(3):
        gate.wait(stream)
        check(d.cuGraphLaunch(takes, stream))
        check(d.cuGraphLaunch(gives, stream))
        gate.open(stream)
        assert list(gate.found) == [5] * WORDS
        ctypes.memset(gate.found, 0, 4 * WORDS)
    for executable in (gives, takes):
        check(d.cuGraphExecDestroy(executable))
    for made in (other, graph):
        check(d.cuGraphDestroy(made))


def test_relaunch_with_unfreed_memory_returns_an_error(check: Any, stream: Any, gate: Gate) -> None:
    """Launches and frees are checked when they are called, not when the device executes them."""
    graph, memory = allocating(check, stream, 1)
    executable = check(d.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        gate.wait(stream)
        check(d.cuGraphLaunch(executable, stream))
        assert d.cuGraphLaunch(executable, stream)[0] == INVALID_VALUE  # still allocated
        check(d.cuMemFreeAsync(memory, stream))
        check(d.cuGraphLaunch(executable, stream))
        check(d.cuMemFreeAsync(memory, stream))
        gate.open(stream)
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))


def test_auto_free_on_launch_frees_memory_of_the_previous_launch(check: Any, stream: Any, gate: Gate) -> None:
    graph, memory = allocating(check, stream, 9)
    executable = check(d.cuGraphInstantiate(graph, AUTO_FREE))
    gate.wait(stream)
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuGraphLaunch(executable, stream))
    gate.open(stream)
    assert words(check, memory, stream) == [9] * WORDS
    check(d.cuMemFreeAsync(memory, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))


def test_free_node_rejects_other_memory_and_a_second_free(check: Any, stream: Any) -> None:
    graph, memory = allocating(check, stream, 1)
    check(d.cuGraphAddMemFreeNode(graph, check(d.cuGraphGetNodes(graph, 2))[0][1:2], 1, memory))
    assert d.cuGraphAddMemFreeNode(graph, None, 0, memory)[0] == INVALID_VALUE
    plain = int(check(d.cuMemAllocAsync(64, stream)))
    assert d.cuGraphAddMemFreeNode(graph, None, 0, plain)[0] == INVALID_VALUE
    check(d.cuStreamBeginCapture(stream, RELAXED))
    assert d.cuMemFreeAsync(plain, stream)[0] == INVALID_VALUE
    d.cuStreamEndCapture(stream)  # a driver may or may not invalidate the capture
    check(d.cuMemFreeAsync(plain, stream))
    check(d.cuGraphDestroy(graph))


@pytest.mark.cpu_only
def test_new_stream_waits_for_the_context_event(context: Any, check: Any, stream: Any, gate: Gate) -> None:
    """NVIDIA's driver reports a stream without queued work as ready."""
    event = check(d.cuEventCreate(int(d.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
    gate.wait(stream)
    check(d.cuEventRecord(event, stream))
    other = check(d.cuCtxCreate(None, 0, 0))
    try:
        check(d.cuCtxWaitEvent(other, event))
        later = check(d.cuStreamCreate(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
        assert d.cuStreamQuery(later)[0] == d.CUresult.CUDA_ERROR_NOT_READY
        gate.word.value = 1
        check(d.cuStreamSynchronize(later))
    finally:
        gate.word.value = 1
        check(d.cuCtxDestroy(other))
        check(d.cuCtxSetCurrent(context))
    check(d.cuStreamSynchronize(stream))
    check(d.cuEventDestroy(event))


def used(check: Any) -> tuple[int, int]:
    """Bytes of graph memory in use, and the most since the last reset."""
    names = d.CUgraphMem_attribute
    return tuple(
        int(check(d.cuDeviceGetGraphMemAttribute(0, name)))
        for name in (names.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, names.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    )


@pytest.mark.cpu_only  # an H200 counts in steps of 32 MiB, which graphs that were destroyed leave behind
@pytest.mark.parametrize("frees", [False, True], ids=["allocated", "freed"])
def test_used_memory_is_counted_at_the_launch(check: Any, stream: Any, gate: Gate, frees: bool) -> None:
    check(d.cuStreamBeginCapture(stream, RELAXED))
    memory = int(check(d.cuMemAllocAsync(1 << 20, stream)))
    check(d.cuMemsetD32Async(memory, 1, WORDS, stream))
    if frees:
        check(d.cuMemFreeAsync(memory, stream))
    graph = check(d.cuStreamEndCapture(stream))
    executable = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuDeviceSetGraphMemAttribute(0, d.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, 0))
    before, _ = used(check)
    gate.wait(stream)
    check(d.cuGraphLaunch(executable, stream))
    current, high = used(check)
    gate.open(stream)
    assert high >= before + (1 << 20)
    if not frees:
        assert current >= before + (1 << 20)
        check(d.cuMemFreeAsync(memory, stream))
        check(d.cuStreamSynchronize(stream))
    assert used(check)[0] == before
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))
