# SPDX-License-Identifier: Apache-2.0
"""Parameters of every node type are returned and changed through the driver bindings, in graphs and executable graphs."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as d

KIND = d.CUgraphNodeType
DEVICE = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
ADD = 'extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n); }'


@pytest.fixture
def graph(context: Any, check: Any) -> Any:
    made = check(d.cuGraphCreate(0))
    yield made
    check(d.cuGraphDestroy(made))


@pytest.fixture
def run(stream: Any, check: Any) -> Any:
    """run(graph, change): instantiates the graph, calls change(executable) if given, and launches it."""

    def launch(graph: Any, change: Any = None) -> None:
        executable = check(d.cuGraphInstantiate(graph, 0))
        if change is not None:
            change(executable)
        check(d.cuGraphLaunch(executable, stream))
        check(d.cuStreamSynchronize(stream))
        check(d.cuGraphExecDestroy(executable))

    return launch


def fill(pointer: Any, value: int) -> Any:
    made = d.CUDA_MEMSET_NODE_PARAMS()
    made.dst, made.value, made.elementSize, made.width, made.height = pointer, value, 4, 1, 1
    return made


def copy(source: int, target: int) -> Any:
    made = d.CUDA_MEMCPY3D()
    made.srcMemoryType = made.dstMemoryType = DEVICE
    made.srcDevice, made.dstDevice, made.WidthInBytes, made.Height, made.Depth = source, target, 4, 1, 1
    return made


def kernel(function: Any, pointer: Any, n: int) -> Any:
    made = d.CUDA_KERNEL_NODE_PARAMS()
    made.func = function
    for axis in "XYZ":
        setattr(made, f"gridDim{axis}", 1)
        setattr(made, f"blockDim{axis}", 1)
    made.kernelParams = ((pointer, n), (None, ctypes.c_int))
    return made


def test_memcpy_and_memset_nodes_run_with_changed_parameters(
    graph: Any, run: Any, memory: Any, context: Any, ints: Any, check: Any
) -> None:
    base = int(memory)
    first = check(d.cuGraphAddMemsetNode(graph, None, 0, fill(base, 3), context))
    second = check(d.cuGraphAddMemcpyNode(graph, [first], 1, copy(base, base + 4), context))
    run(graph)
    assert ints(memory, 3) == [3, 3, 0]
    check(d.cuGraphMemcpyNodeSetParams(second, copy(base, base + 8)))
    run(graph)
    assert ints(memory, 3) == [3, 3, 3]

    def change(executable: Any) -> None:
        check(d.cuGraphExecMemsetNodeSetParams(executable, first, fill(base, 5), context))
        check(d.cuGraphExecMemcpyNodeSetParams(executable, second, copy(base, base + 12), context))

    run(graph, change)
    assert ints(memory, 4) == [5, 3, 3, 5]


def test_kernel_nodes_copy_attributes_and_run_with_changed_parameters(
    graph: Any, run: Any, memory: Any, ints: Any, compile_kernel: Any, check: Any
) -> None:
    function = compile_kernel(ADD, "add")
    first = check(d.cuGraphAddKernelNode(graph, None, 0, kernel(function, memory, 1)))
    second = check(d.cuGraphAddKernelNode(graph, [first], 1, kernel(function, memory, 10)))
    priority = d.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    value = d.CUkernelNodeAttrValue()
    value.priority = check(d.cuCtxGetStreamPriorityRange())[1]
    check(d.cuGraphKernelNodeSetAttribute(first, priority, value))
    assert check(d.cuGraphKernelNodeGetAttribute(first, priority)).priority == value.priority
    check(d.cuGraphKernelNodeCopyAttributes(second, first))
    assert check(d.cuGraphKernelNodeGetAttribute(second, priority)).priority == value.priority
    check(d.cuGraphKernelNodeSetParams(second, kernel(function, memory, 20)))
    run(graph)
    assert ints(memory, 1) == [21]

    def change(executable: Any) -> None:
        check(d.cuGraphExecKernelNodeSetParams(executable, second, kernel(function, memory, 300)))
        check(d.cuGraphNodeSetEnabled(executable, first, 0))
        assert check(d.cuGraphNodeGetEnabled(executable, first)) == 0
        assert check(d.cuGraphNodeGetEnabled(executable, second)) == 1

    run(graph, change)
    assert ints(memory, 1) == [321]


def test_event_nodes_return_and_change_their_event(graph: Any, run: Any, check: Any) -> None:
    one, two = check(d.cuEventCreate(0)), check(d.cuEventCreate(0))
    record = check(d.cuGraphAddEventRecordNode(graph, None, 0, one))
    wait = check(d.cuGraphAddEventWaitNode(graph, [record], 1, one))
    assert int(check(d.cuGraphEventWaitNodeGetEvent(wait))) == int(one)
    check(d.cuGraphEventRecordNodeSetEvent(record, two))
    check(d.cuGraphEventWaitNodeSetEvent(wait, two))
    assert (
        int(check(d.cuGraphEventRecordNodeGetEvent(record)))
        == int(check(d.cuGraphEventWaitNodeGetEvent(wait)))
        == int(two)
    )

    def change(executable: Any) -> None:
        check(d.cuGraphExecEventRecordNodeSetEvent(executable, record, one))
        check(d.cuGraphExecEventWaitNodeSetEvent(executable, wait, one))

    run(graph, change)
    assert d.cuEventQuery(one) == (0,)
    for event in (one, two):
        check(d.cuEventDestroy(event))


def test_host_nodes_run_with_changed_parameters(graph: Any, run: Any, check: Any) -> None:
    seen: list[Any] = []
    params = d.CUDA_HOST_NODE_PARAMS()
    params.fn, params.userData = seen.append, "one"
    node = check(d.cuGraphAddHostNode(graph, None, 0, params))
    assert int(check(d.cuGraphHostNodeGetParams(node)).fn) != 0
    run(graph)
    params.fn, params.userData = seen.append, "two"
    check(d.cuGraphHostNodeSetParams(node, params))
    run(graph)
    other = d.CUDA_HOST_NODE_PARAMS()
    other.fn, other.userData = seen.append, "three"
    run(graph, lambda executable: check(d.cuGraphExecHostNodeSetParams(executable, node, other)))
    assert seen == ["one", "two", "three"]


def test_child_graph_node_runs_its_clone(
    graph: Any, run: Any, memory: Any, context: Any, ints: Any, check: Any
) -> None:
    inner = check(d.cuGraphCreate(0))
    check(d.cuGraphAddMemsetNode(inner, None, 0, fill(memory, 3), context))
    node = check(d.cuGraphAddChildGraphNode(graph, None, 0, inner))
    mine = check(d.cuGraphChildGraphNodeGetGraph(node))
    assert int(mine) != int(inner) and check(d.cuGraphGetNodes(mine, 4))[1] == 1
    other = check(d.cuGraphClone(inner))
    check(d.cuGraphMemsetNodeSetParams(check(d.cuGraphGetNodes(other, 1))[0][0], fill(memory, 8)))
    run(graph)
    assert ints(memory, 1) == [3]
    run(graph, lambda executable: check(d.cuGraphExecChildGraphNodeSetParams(executable, node, other)))
    assert ints(memory, 1) == [8]
    check(d.cuGraphDestroy(other))
    check(d.cuGraphDestroy(inner))


def test_memory_nodes_allocate_and_free(
    graph: Any, run: Any, memory: Any, device: Any, context: Any, ints: Any, check: Any
) -> None:
    params = d.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.poolProps.location.id = int(device)
    params.bytesize = 64
    first = check(d.cuGraphAddMemAllocNode(graph, None, 0, params))
    assert int(params.dptr) != 0  # the call sets it
    assert int(check(d.cuGraphMemAllocNodeGetParams(first)).dptr) == int(params.dptr)
    second = check(d.cuGraphAddMemsetNode(graph, [first], 1, fill(params.dptr, 6), context))
    third = check(d.cuGraphAddMemcpyNode(graph, [second], 1, copy(int(params.dptr), int(memory)), context))
    last = check(d.cuGraphAddMemFreeNode(graph, [third], 1, params.dptr))
    assert int(check(d.cuGraphMemFreeNodeGetParams(last))) == int(params.dptr)
    run(graph)
    assert ints(memory, 1) == [6]


def test_batch_memory_operation_node_runs_with_changed_parameters(
    graph: Any, run: Any, memory: Any, context: Any, ints: Any, check: Any
) -> None:
    def batch(value: int) -> Any:
        write = d.CUstreamBatchMemOpParams()
        write.operation = d.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
        write.writeValue.address, write.writeValue.value = memory, value
        made = d.CUDA_BATCH_MEM_OP_NODE_PARAMS()
        made.ctx, made.count, made.paramArray = context, 1, [write]
        return made

    node = check(d.cuGraphAddBatchMemOpNode(graph, None, 0, batch(4)))
    run(graph)
    assert ints(memory, 1) == [4]
    check(d.cuGraphBatchMemOpNodeSetParams(node, batch(5)))
    found = check(d.cuGraphBatchMemOpNodeGetParams(node))
    assert found.count == 1 and int(found.paramArray[0].writeValue.value) == 5
    run(graph, lambda executable: check(d.cuGraphExecBatchMemOpNodeSetParams(executable, node, batch(6))))
    assert ints(memory, 1) == [6]


def test_generic_node_parameters_add_and_change_every_node_type(
    graph: Any, run: Any, memory: Any, device: Any, context: Any, ints: Any, compile_kernel: Any, since: Any, check: Any
) -> None:
    since(13000)
    base, function = int(memory), compile_kernel(ADD, "add")
    seen: list[Any] = []
    event = check(d.cuEventCreate(0))

    def made(kind: str) -> Any:
        params = d.CUgraphNodeParams()
        params.type = getattr(KIND, f"CU_GRAPH_NODE_TYPE_{kind}")
        return params

    def add(params: Any, *before: Any) -> Any:
        return check(d.cuGraphAddNode(graph, list(before) or None, None, len(before), params))

    p = made("MEMSET")
    p.memset.dst, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height = base, 2, 4, 1, 1
    p.memset.ctx = context
    first = add(p)
    p = made("KERNEL")
    source = kernel(function, memory, 40)
    for field in ("func", "gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
        setattr(p.kernel, field, getattr(source, field))
    p.kernel.kernelParams = ((memory, 40), (None, ctypes.c_int))
    second = add(p, first)
    p = made("MEMCPY")
    p.memcpy.copyParams, p.memcpy.copyCtx = copy(base, base + 4), context
    third = add(p, second)
    p = made("HOST")
    p.host.fn, p.host.userData = seen.append, "host"
    fourth = add(p, third)
    p = made("EVENT_RECORD")
    p.eventRecord.event = event
    fifth = add(p, fourth)
    p = made("WAIT_EVENT")
    p.eventWait.event = event
    sixth = add(p, fifth)
    p = made("MEM_ALLOC")
    p.alloc.poolProps.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    p.alloc.poolProps.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    p.alloc.poolProps.location.id, p.alloc.bytesize = int(device), 64
    seventh = add(p, sixth)
    pointer = int(p.alloc.dptr)
    assert pointer
    p = made("MEM_FREE")
    p.free.dptr = pointer
    eighth = add(p, seventh)
    inner = check(d.cuGraphCreate(0))
    check(d.cuGraphAddMemsetNode(inner, None, 0, fill(base + 8, 7), context))
    p = made("GRAPH")
    p.graph.graph = inner
    add(made("EMPTY"), add(p))
    run(graph)
    assert ints(memory, 3) == [42, 42, 7] and seen == ["host"]

    p = made("MEMSET")
    p.memset.dst, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height = base, 5, 4, 1, 1
    p.memset.ctx = context
    check(d.cuGraphNodeSetParams(first, p))
    p.memset.value = 9
    run(graph, lambda executable: check(d.cuGraphExecNodeSetParams(executable, first, p)))
    assert ints(memory, 2) == [49, 49]
    check(d.cuEventDestroy(event))
    check(d.cuGraphDestroy(inner))
    since(13020)
    found = check(d.cuGraphNodeGetParams(first))
    assert found.type == KIND.CU_GRAPH_NODE_TYPE_MEMSET and found.memset.value == 5
    assert check(d.cuGraphNodeGetParams(fourth)).type == KIND.CU_GRAPH_NODE_TYPE_HOST
    assert int(check(d.cuGraphNodeGetParams(eighth)).free.dptr) == pointer


def test_latest_versions_of_add_and_set_functions_work(
    graph: Any, run: Any, memory: Any, context: Any, ints: Any, since: Any, check: Any
) -> None:
    since(13040)
    p = d.CUgraphNodeParams()
    p.type = KIND.CU_GRAPH_NODE_TYPE_MEMSET
    p.memset.dst, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height = memory, 2, 4, 1, 1
    p.memset.ctx = context
    node = check(d.cuGraphAddNode_v3(graph, None, None, 0, p))
    p.memset.value = 4
    check(d.cuGraphNodeSetParams_v2(node, p))
    run(graph)
    assert ints(memory, 1) == [4]


def test_conditional_node_runs_the_body_of_its_value(
    graph: Any, run: Any, memory: Any, context: Any, ints: Any, since: Any, check: Any
) -> None:
    since(12080)
    default = d.CU_GRAPH_COND_ASSIGN_DEFAULT
    handle = check(d.cuGraphConditionalHandleCreate(graph, context, 0, default))
    p = d.CUgraphNodeParams()
    p.type = KIND.CU_GRAPH_NODE_TYPE_CONDITIONAL
    p.conditional.handle, p.conditional.type = handle, d.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
    p.conditional.size, p.conditional.ctx = 2, context
    check(d.cuGraphAddNode(graph, None, None, 0, p))
    bodies = p.conditional.phGraph_out
    for i in range(2):
        check(d.cuGraphAddMemsetNode(bodies[i], None, 0, fill(int(memory) + 4 * i, 3), context))
    run(graph)
    assert ints(memory, 2) == [0, 3]  # the condition is 0: the second body


def test_graphs_and_nodes_have_identifiers(graph: Any, context: Any, memory: Any, since: Any, check: Any) -> None:
    since(13010)
    node = check(d.cuGraphAddMemsetNode(graph, None, 0, fill(memory, 1), context))
    executable = check(d.cuGraphInstantiate(graph, 0))
    assert int(check(d.cuGraphNodeGetContainingGraph(node))) == int(graph)
    assert check(d.cuGraphNodeGetLocalId(node)) >= 0
    other = check(d.cuGraphClone(graph))
    assert check(d.cuGraphGetId(graph)) != check(d.cuGraphGetId(other))
    assert check(d.cuGraphExecGetId(executable)) >= 0 and check(d.cuGraphNodeGetToolsId(node)) >= 0
    check(d.cuGraphDestroy(other))
    check(d.cuGraphExecDestroy(executable))


def test_executable_graph_returns_its_flags(graph: Any, stream: Any, check: Any) -> None:
    check(d.cuGraphAddEmptyNode(graph, None, 0))
    flag = int(d.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
    executable = check(d.cuGraphInstantiate(graph, flag))
    assert int(check(d.cuGraphExecGetFlags(executable))) == flag
    check(d.cuGraphExecDestroy(executable))
    params = d.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags, params.hUploadStream = flag, stream
    executable = check(d.cuGraphInstantiateWithParams(graph, params))
    assert params.result_out == d.CUgraphInstantiateResult.CUDA_GRAPH_INSTANTIATE_SUCCESS
    check(d.cuGraphExecDestroy(executable))


def test_graph_is_written_as_dot(graph: Any, context: Any, memory: Any, check: Any, tmp_path: Path) -> None:
    check(d.cuGraphAddMemsetNode(graph, None, 0, fill(memory, 1), context))
    file = tmp_path / "graph.dot"
    check(d.cuGraphDebugDotPrint(graph, str(file).encode(), 0))
    assert "digraph" in file.read_text()


def test_incompatible_update_returns_the_node(graph: Any, memory: Any, context: Any, check: Any) -> None:
    check(d.cuGraphAddEmptyNode(graph, None, 0))
    executable = check(d.cuGraphInstantiate(graph, 0))
    other = check(d.cuGraphCreate(0))
    check(d.cuGraphAddMemsetNode(other, None, 0, fill(memory, 1), context))
    code, _nothing = d.cuGraphExecUpdate(executable, other)
    assert code == d.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(other))


def test_user_object_is_destroyed_with_its_graph(context: Any, check: Any) -> None:
    gone: list[Any] = []
    no_sync = d.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
    owned = check(d.cuUserObjectCreate({"a": 1}, gone.append, 1, no_sync))
    check(d.cuUserObjectRetain(owned, 2))
    graph = check(d.cuGraphCreate(0))
    check(d.cuGraphRetainUserObject(graph, owned, 1, d.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE))
    check(d.cuGraphRetainUserObject(graph, owned, 1, 0))
    check(d.cuUserObjectRelease(owned, 2))
    check(d.cuGraphReleaseUserObject(graph, owned, 1))
    assert gone == []
    check(d.cuGraphDestroy(graph))
    for _ in range(1000):
        if gone:
            break
        check(d.cuCtxSynchronize())
    assert gone == [{"a": 1}]


def test_programmatic_edges_keep_their_data(
    graph: Any, memory: Any, compile_kernel: Any, device: Any, since: Any, check: Any
) -> None:
    since(12030)
    function = compile_kernel(ADD, "add")
    nodes = [check(d.cuGraphAddKernelNode(graph, None, 0, kernel(function, memory, i))) for i in range(2)]
    edge = d.CUgraphEdgeData()
    edge.type, edge.from_port = int(d.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC), 1
    code = d.cuGraphAddDependencies(graph, nodes[:1], nodes[1:], [edge], 1)[0]
    assert code in (0, d.CUresult.CUDA_ERROR_NOT_SUPPORTED, d.CUresult.CUDA_ERROR_INVALID_VALUE)
    if code == 0:
        _, _, data, count = check(d.cuGraphGetEdges(graph, 4))
        assert count == 1 and data[0].type == edge.type and data[0].from_port == 1
        check(d.cuGraphRemoveDependencies(graph, nodes[:1], nodes[1:], [edge], 1))
    assert check(d.cuGraphGetEdges(graph, 4))[3] == 0
