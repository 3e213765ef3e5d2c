# SPDX-License-Identifier: Apache-2.0
"""Nodes of graphs as a driver of CUDA 13 makes them: managed memory, conditions, programmatic edges, replaced child graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

KIND = d.CUgraphNodeType
INVALID_VALUE = d.CUresult.CUDA_ERROR_INVALID_VALUE
RELAXED = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


@pytest.fixture
def graph(context: Any, check: Any) -> Iterator[Any]:
    made = check(d.cuGraphCreate(0))
    yield made
    check(d.cuGraphDestroy(made))


def test_a_graph_allocates_managed_memory(graph: Any, stream: Any, check: Any) -> None:
    params = d.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_MANAGED
    params.poolProps.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.poolProps.location.id = 0
    params.bytesize = 4096
    code, node = d.cuGraphAddMemAllocNode(graph, None, 0, params)
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("a driver before CUDA 13")
    assert code == 0
    fill = d.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = params.dptr, 5, 1, 4096, 1
    filled = check(d.cuGraphAddMemsetNode(graph, [node], 1, fill, check(d.cuCtxGetCurrent())))
    check(d.cuGraphAddMemFreeNode(graph, [filled], 1, params.dptr))
    ready = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphLaunch(ready, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuGraphExecDestroy(ready))


def conditional(handle: Any, context: Any) -> Any:
    p = d.CUgraphNodeParams()
    p.type = KIND.CU_GRAPH_NODE_TYPE_CONDITIONAL
    p.conditional.handle, p.conditional.type = handle, d.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
    p.conditional.size, p.conditional.ctx = 1, context
    return p


def test_a_condition_of_another_graph_is_refused(graph: Any, context: Any, check: Any) -> None:
    other = check(d.cuGraphCreate(0))
    foreign = check(d.cuGraphConditionalHandleCreate(other, context, 1, d.CU_GRAPH_COND_ASSIGN_DEFAULT))
    assert d.cuGraphAddNode(graph, None, None, 0, conditional(foreign, context))[0] == INVALID_VALUE
    assert check(d.cuGraphGetNodes(graph))[1] == 0
    check(d.cuGraphAddNode(other, None, None, 0, conditional(foreign, context)))
    check(d.cuGraphDestroy(other))


def captured_pair(check: Any, stream: Any, launch: Any) -> tuple[Any, list[Any]]:
    check(d.cuStreamBeginCapture(stream, RELAXED))
    launch(False)
    launch(True)
    graph = check(d.cuStreamEndCapture(stream))
    _, _, data, count = check(d.cuGraphGetEdges(graph, 1))
    assert count == 1
    return graph, [(edge.type, edge.from_port, edge.to_port) for edge in data]


def test_a_captured_programmatic_launch_has_a_programmatic_edge(context: Any, stream: Any, check: Any) -> None:
    code = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n"
    module = check(d.cuModuleLoadData(code))
    function = check(d.cuModuleGetFunction(module, b"nothing"))

    def launch(programmatic: bool) -> None:
        attribute = d.CUlaunchAttribute()
        attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = int(programmatic)
        config = d.CUlaunchConfig()
        config.gridDimX = config.gridDimY = config.gridDimZ = 1
        config.blockDimX = config.blockDimY = config.blockDimZ = 1
        config.hStream, config.attrs, config.numAttrs = stream, [attribute], 1
        check(d.cuLaunchKernelEx(config, function, ((), ()), 0))

    graph, edges = captured_pair(check, stream, launch)
    assert edges == [(1, 1, 0)]  # programmatic, from the trigger of the first kernel
    ready = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphLaunch(ready, stream))
    check(d.cuStreamSynchronize(stream))
    for destroy, thing in ((d.cuGraphExecDestroy, ready), (d.cuGraphDestroy, graph), (d.cuModuleUnload, module)):
        check(destroy(thing))


CHAIN = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 cells, .param .u32 number) {
  .reg .b64 %p, %o; .reg .b32 %v, %n, %t, %b, %d; .reg .pred %first;
  ld.param.u64 %p, [cells]; ld.param.u32 %n, [number];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %t, %b, %d, %t; mul.wide.u32 %o, %t, 4; add.u64 %p, %p, %o;
  griddepcontrol.launch_dependents;
  griddepcontrol.wait;
  ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 3, %n; st.global.u32 [%p], %v;
  ret; }
"""


def test_kernels_of_a_chain_of_programmatic_edges_see_the_results_before_them(
    context: Any, stream: Any, check: Any
) -> None:
    """Each kernel lets the next one start at once and waits for the one before it; the graph runs twice, then again as a clone."""
    module = check(d.cuModuleLoadData(CHAIN))
    function = check(d.cuModuleGetFunction(module, b"add"))
    blocks, threads, length = 32, 64, 6
    cells = check(d.cuMemAlloc(4 * blocks * threads))
    check(d.cuMemsetD32(cells, 1, blocks * threads))
    attribute = d.CUlaunchAttribute()
    attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.hStream, config.attrs, config.numAttrs = stream, [attribute], 1
    check(d.cuStreamBeginCapture(stream, RELAXED))
    for number in range(length):
        check(d.cuLaunchKernelEx(config, function, ((int(cells), number), (ctypes.c_uint64, ctypes.c_uint32)), 0))
    graph = check(d.cuStreamEndCapture(stream))
    _, _, data, count = check(d.cuGraphGetEdges(graph, length))
    assert [(edge.type, edge.from_port) for edge in data[:count]] == [(1, 1)] * (length - 1)
    clone = check(d.cuGraphClone(graph))
    ready = [check(d.cuGraphInstantiate(g, 0)) for g in (graph, clone)]
    value = 1
    for instance in (ready[0], ready[0], ready[1]):
        check(d.cuGraphLaunch(instance, stream))
        for number in range(length):
            value = (value * 3 + number) % 2**32
    check(d.cuStreamSynchronize(stream))
    got = (ctypes.c_uint32 * (blocks * threads))()
    check(d.cuMemcpyDtoH(got, cells, ctypes.sizeof(got)))
    assert set(got) == {value}
    for instance in ready:
        check(d.cuGraphExecDestroy(instance))
    for destroy, thing in (
        (d.cuGraphDestroy, graph),
        (d.cuGraphDestroy, clone),
        (d.cuModuleUnload, module),
        (d.cuMemFree, cells),
    ):
        check(destroy(thing))


@pytest.mark.cpu_only  # a GPU's driver need not notice handles of nodes that are gone
def test_the_nodes_of_a_replaced_child_graph_are_gone(graph: Any, check: Any) -> None:
    first, second = check(d.cuGraphCreate(0)), check(d.cuGraphCreate(0))
    check(d.cuGraphAddEmptyNode(first, None, 0))
    check(d.cuGraphAddEmptyNode(second, None, 0))
    node = check(d.cuGraphAddChildGraphNode(graph, None, 0, first))
    (inside,) = check(d.cuGraphGetNodes(check(d.cuGraphChildGraphNodeGetGraph(node)), 1))[0]
    params = d.CUgraphNodeParams()
    params.type = KIND.CU_GRAPH_NODE_TYPE_GRAPH
    params.graph.graph = second
    check(d.cuGraphNodeSetParams(node, params))
    assert d.cuGraphNodeGetType(inside)[0] == INVALID_VALUE
    (inside,) = check(d.cuGraphGetNodes(check(d.cuGraphChildGraphNodeGetGraph(node)), 1))[0]
    assert d.cuGraphNodeGetType(inside)[0] == 0
    for source in (first, second):
        check(d.cuGraphDestroy(source))
