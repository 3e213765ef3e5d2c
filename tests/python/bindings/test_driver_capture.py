# SPDX-License-Identifier: Apache-2.0
"""Captures and memory operations of streams through the driver bindings."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from cuda.bindings import driver as d

RELAXED = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
OPERATION = d.CUstreamBatchMemOpType


def test_batch_of_memory_operations_writes_memory(memory: Any, stream: Any, ints: Any, check: Any) -> None:
    write, wait = d.CUstreamBatchMemOpParams(), d.CUstreamBatchMemOpParams()
    write.operation = OPERATION.CU_STREAM_MEM_OP_WRITE_VALUE_32
    write.writeValue.address, write.writeValue.value = memory, 5
    wait.operation = OPERATION.CU_STREAM_MEM_OP_WAIT_VALUE_32
    wait.waitValue.address, wait.waitValue.value = memory, 5
    wait.waitValue.flags = int(d.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ)
    check(d.cuStreamBatchMemOp(stream, 2, [write, wait], 0))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 1) == [5]
    with pytest.raises(ValueError, match="paramArray has 2 elements, but count is 3"):
        d.cuStreamBatchMemOp(stream, 3, [write, wait], 0)


def test_stream_waits_for_a_64_bit_value(memory: Any, stream: Any, device: Any, check: Any, ints: Any) -> None:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
    if not check(d.cuDeviceGetAttribute(can, device)):
        pytest.skip("no wide values")
    other = check(d.cuStreamCreate(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
    check(d.cuStreamWaitValue64(stream, memory, 1 << 40, d.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ))
    check(d.cuMemsetD32Async(int(memory) + 8, 9, 1, stream))
    assert d.cuStreamQuery(stream)[0] == d.CUresult.CUDA_ERROR_NOT_READY
    check(d.cuStreamWriteValue64(other, memory, 1 << 40, 0))
    check(d.cuStreamSynchronize(stream))
    check(d.cuStreamDestroy(other))
    assert ints(memory, 3) == [0, 256, 9]


def test_capture_to_an_existing_graph_adds_nodes(memory: Any, stream: Any, ints: Any, check: Any) -> None:
    graph = check(d.cuGraphCreate(0))
    first = check(d.cuGraphAddEmptyNode(graph, None, 0))
    check(d.cuStreamBeginCaptureToGraph(stream, graph, [first], None, 1, RELAXED))
    check(d.cuMemsetD32Async(memory, 3, 4, stream))
    assert check(d.cuStreamIsCapturing(stream)) == d.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    status, _, same, nodes, _, count = check(d.cuStreamGetCaptureInfo(stream))
    assert status == d.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    assert int(same) == int(graph) and count == len(nodes) == 1
    replace = d.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
    check(d.cuStreamUpdateCaptureDependencies(stream, [first], None, 1, replace))
    check(d.cuMemsetD32Async(int(memory) + 64, 4, 4, stream))  # independent of the other node
    add = d.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_ADD_CAPTURE_DEPENDENCIES
    check(d.cuStreamUpdateCaptureDependencies(stream, nodes, None, 1, add))
    assert int(check(d.cuStreamEndCapture(stream))) == int(graph)
    assert check(d.cuGraphGetNodes(graph, 8))[1] == 3
    assert {int(n) for n in check(d.cuGraphNodeGetDependentNodes(first, 4))[0][:2]} >= {int(nodes[0])}
    executable = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 20)[:4] == [3] * 4 and ints(memory, 20)[16:] == [4] * 4
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))


@pytest.fixture
def captured(memory: Any, stream: Any, check: Any) -> Any:
    """A graph with one memset node of the value 3."""
    check(d.cuStreamBeginCapture(stream, RELAXED))
    check(d.cuMemsetD32Async(memory, 3, 4, stream))
    graph = check(d.cuStreamEndCapture(stream))
    yield graph
    check(d.cuGraphDestroy(graph))


def test_recapture_calls_back_with_each_change(
    captured: Any, memory: Any, stream: Any, ints: Any, since: Any, check: Any
) -> None:
    since(13030)
    seen: list[Any] = []

    def changed(data: Any, node: Any, before: Any, after: Any, status: Any) -> None:
        seen.append((data, int(node), before.memset.value, after.memset.value, status))

    check(d.cuStreamBeginRecaptureToGraph(stream, RELAXED, captured, changed, "mine"))
    check(d.cuMemsetD32Async(memory, 8, 4, stream))
    gone = weakref.ref(changed)
    del changed
    assert gone() is not None
    assert int(check(d.cuStreamEndCapture(stream))) == int(captured)
    assert gone() is None
    node = check(d.cuGraphGetNodes(captured, 1))[0][0]
    assert seen == [("mine", int(node), 3, 8, d.CUgraphRecaptureStatus.CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE)]
    assert check(d.cuGraphMemsetNodeGetParams(node)).value == 8


@pytest.mark.parametrize("answer", ["code", "raises"])
def test_recapture_fails_if_the_callback_rejects_a_change(
    answer: str, captured: Any, memory: Any, stream: Any, since: Any, check: Any, monkeypatch: Any
) -> None:
    since(13030)
    reports: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reports.append)

    def changed(*arguments: Any) -> Any:
        if answer == "raises":
            raise LookupError("no such change")
        return d.CUresult.CUDA_ERROR_NOT_PERMITTED

    check(d.cuStreamBeginRecaptureToGraph(stream, RELAXED, captured, changed, None))
    assert d.cuMemsetD32Async(memory, 8, 4, stream)[0] != 0
    assert d.cuStreamEndCapture(stream)[0] != 0
    assert [report.exc_type for report in reports] == ([LookupError] if answer == "raises" else [])


def test_stream_returns_its_context_and_green_context(stream: Any, context: Any, since: Any, check: Any) -> None:
    since(12050)
    owner, green = check(d.cuStreamGetCtx_v2(stream))
    assert int(owner) == int(check(d.cuStreamGetCtx(stream))) == int(context) and int(green) == 0


def test_host_function_with_blocking_sync_runs(stream: Any, since: Any, check: Any) -> None:
    since(13010)
    seen: list[Any] = []
    for mode in (0, 1):
        check(d.cuLaunchHostFunc_v2(stream, seen.append, mode, mode))
    check(d.cuStreamSynchronize(stream))
    assert seen == [0, 1]
