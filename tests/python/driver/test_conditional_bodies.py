# SPDX-License-Identifier: Apache-2.0
"""Node types in conditional bodies: any node can be added, and unsupported ones fail at instantiation, as on an H200."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

KIND = d.CUgraphNodeType
RESULT = d.CUgraphInstantiateResult
INVALID_VALUE = d.CUresult.CUDA_ERROR_INVALID_VALUE
RELAXED = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class World:
    """A graph, and memory for its nodes."""

    def __init__(self, check: Callable[..., Any], context: Any, stream: Any) -> None:
        self.check, self.context, self.stream = check, context, stream
        self.graph = check(d.cuGraphCreate(0))
        self.event = check(d.cuEventCreate(0))
        self.memory = int(check(d.cuMemAlloc(4096)))
        self.pinned = int(check(d.cuMemHostAlloc(4096, 0)))
        self.pageable = ctypes.create_string_buffer(4096)

    def close(self) -> None:
        for code in (
            d.cuGraphDestroy(self.graph),
            d.cuEventDestroy(self.event),
            d.cuMemFree(self.memory),
            d.cuMemFreeHost(self.pinned),
        ):
            self.check(code)

    def condition(self, graph: Any, value: int = 1) -> Any:
        return self.check(d.cuGraphConditionalHandleCreate(graph, self.context, value, d.CU_GRAPH_COND_ASSIGN_DEFAULT))

    def add(self, graph: Any, handle: Any) -> tuple[Any, Any]:
        """Adds a conditional node; returns the error code and its body."""
        p = d.CUgraphNodeParams()
        p.type = KIND.CU_GRAPH_NODE_TYPE_CONDITIONAL
        p.conditional.handle, p.conditional.type = handle, d.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
        p.conditional.size, p.conditional.ctx = 1, self.context
        code = d.cuGraphAddNode(graph, None, None, 0, p)[0]
        return code, p.conditional.phGraph_out[0] if code == 0 else None

    def body(self, graph: Any, value: int = 1) -> Any:
        code, body = self.add(graph, self.condition(graph, value))
        assert code == 0
        return body

    def instantiate(self) -> tuple[Any, Any, Any]:
        """Error code, instantiation result, and type of the failing node."""
        params = d.CUDA_GRAPH_INSTANTIATE_PARAMS()
        code, exec_ = d.cuGraphInstantiateWithParams(self.graph, params)
        if code == 0:
            self.check(d.cuGraphLaunch(exec_, self.stream))
            self.check(d.cuStreamSynchronize(self.stream))
            self.check(d.cuGraphExecDestroy(exec_))
        node = params.hErrNode_out
        return code, params.result_out, self.check(d.cuGraphNodeGetType(node)) if int(node) else None


@pytest.fixture
def world(check: Any, context: Any, stream: Any) -> Iterator[World]:
    made = World(check, context, stream)
    yield made
    made.close()


def captured(world: World, graph: Any, call: Callable[[Any], Any]) -> None:
    world.check(d.cuStreamBeginCaptureToGraph(world.stream, graph, None, None, 0, RELAXED))
    world.check(call(world.stream))
    world.check(d.cuStreamEndCapture(world.stream))


def memset(world: World, graph: Any) -> None:
    captured(world, graph, lambda stream: d.cuMemsetD32Async(world.memory, 1, 4, stream))


def empty(world: World, graph: Any) -> None:
    world.check(d.cuGraphAddEmptyNode(graph, None, 0))


def host(world: World, graph: Any) -> None:
    captured(world, graph, lambda stream: d.cuLaunchHostFunc(stream, lambda _: None, None))


def record(world: World, graph: Any) -> None:
    world.check(d.cuGraphAddEventRecordNode(graph, None, 0, world.event))


def wait(world: World, graph: Any) -> None:
    world.check(d.cuGraphAddEventWaitNode(graph, None, 0, world.event))


def allocate(world: World, graph: Any) -> None:
    captured(world, graph, lambda stream: d.cuMemAllocAsync(64, stream))


def write(world: World, graph: Any) -> None:
    captured(world, graph, lambda stream: d.cuStreamWriteValue32(stream, world.memory, 1, 0))


def to_pinned(world: World, graph: Any) -> None:
    captured(world, graph, lambda stream: d.cuMemcpyAsync(world.pinned, world.memory, 64, stream))


def to_pageable(world: World, graph: Any) -> None:
    captured(world, graph, lambda s: d.cuMemcpyAsync(ctypes.addressof(world.pageable), world.memory, 64, s))


def from_pageable(world: World, graph: Any) -> None:
    captured(world, graph, lambda s: d.cuMemcpyAsync(world.memory, ctypes.addressof(world.pageable), 64, s))


def in_child(fill: Callable[[World, Any], None]) -> Callable[[World, Any], None]:
    def add(world: World, graph: Any) -> None:
        child = world.check(d.cuGraphCreate(0))
        fill(world, child)
        world.check(d.cuGraphAddChildGraphNode(graph, None, 0, child))
        world.check(d.cuGraphDestroy(child))

    return add


def in_condition(fill: Callable[[World, Any], None]) -> Callable[[World, Any], None]:
    return lambda world, graph: fill(world, world.body(graph))


@pytest.mark.parametrize("fill", [empty, memset, to_pinned, in_child(memset), in_condition(memset)])
def test_body_accepts_supported_node_types(world: World, fill: Any) -> None:
    fill(world, world.body(world.graph))
    assert world.instantiate() == (0, RESULT.CUDA_GRAPH_INSTANTIATE_SUCCESS, None)


@pytest.mark.parametrize("value", [1, 0])
@pytest.mark.parametrize(
    ("fill", "kind"),
    [
        (host, KIND.CU_GRAPH_NODE_TYPE_HOST),
        (record, KIND.CU_GRAPH_NODE_TYPE_EVENT_RECORD),
        (wait, KIND.CU_GRAPH_NODE_TYPE_WAIT_EVENT),
        (allocate, KIND.CU_GRAPH_NODE_TYPE_MEM_ALLOC),
        (write, KIND.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP),
        (in_child(host), KIND.CU_GRAPH_NODE_TYPE_HOST),
        (in_child(in_child(record)), KIND.CU_GRAPH_NODE_TYPE_EVENT_RECORD),
        (in_condition(host), KIND.CU_GRAPH_NODE_TYPE_HOST),
    ],
)
def test_body_with_an_unsupported_node_type_fails_to_instantiate(
    world: World, fill: Any, kind: Any, value: int
) -> None:
    fill(world, world.body(world.graph, value))
    assert world.instantiate() == (INVALID_VALUE, RESULT.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, kind)


@pytest.mark.parametrize("fill", [to_pageable, from_pageable])
def test_body_with_a_copy_of_pageable_memory_fails_to_instantiate(world: World, fill: Any) -> None:
    fill(world, world.body(world.graph))
    told = RESULT.CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED
    assert world.instantiate() == (INVALID_VALUE, told, KIND.CU_GRAPH_NODE_TYPE_MEMCPY)


def test_condition_with_no_node_or_two_nodes_fails_to_instantiate(world: World) -> None:
    handle = world.condition(world.graph)
    memset(world, world.graph)
    told = RESULT.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED
    assert world.instantiate() == (INVALID_VALUE, told, None)
    assert world.add(world.graph, handle)[0] == 0
    assert world.add(world.graph, handle)[0] == INVALID_VALUE
    assert world.instantiate()[0] == 0


def test_graph_with_conditions_cannot_be_cloned_or_embedded(world: World, check: Any) -> None:
    world.body(world.graph)
    assert d.cuGraphClone(world.graph)[0] == d.CUresult.CUDA_ERROR_NOT_SUPPORTED
    around = check(d.cuGraphCreate(0))
    assert d.cuGraphAddChildGraphNode(around, None, 0, world.graph)[0] == d.CUresult.CUDA_ERROR_NOT_SUPPORTED
    check(d.cuGraphDestroy(around))
