# SPDX-License-Identifier: Apache-2.0
"""Parameters of every node type are returned and changed through the runtime bindings."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import runtime as r

KIND = r.cudaGraphNodeType
WITHIN = r.cudaMemcpyKind.cudaMemcpyDeviceToDevice
ADD = 'extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n); }'


@pytest.fixture(autouse=True)
def started(context: Any) -> Any:
    """Runtime functions use the current context, which is that of the driver fixtures."""
    yield
    r.cudaGetLastError()


@pytest.fixture
def base(memory: Any) -> int:
    return int(memory)


@pytest.fixture
def graph(context: Any, check: Any) -> Any:
    made = check(r.cudaGraphCreate(0))
    yield made
    check(r.cudaGraphDestroy(made))


@pytest.fixture
def run(context: Any, check: Any) -> Any:
    """run(graph, change): instantiates the graph, calls change(executable) if given, and launches it."""
    stream = check(r.cudaStreamCreate())

    def launch(graph: Any, change: Any = None) -> None:
        executable = check(r.cudaGraphInstantiateWithFlags(graph, 0))
        if change is not None:
            change(executable)
        check(r.cudaGraphLaunch(executable, stream))
        check(r.cudaStreamSynchronize(stream))
        check(r.cudaGraphExecDestroy(executable))

    yield launch
    check(r.cudaStreamDestroy(stream))


def fill(pointer: int, value: int) -> Any:
    made = r.cudaMemsetParams()
    made.dst, made.value, made.elementSize, made.width, made.height = pointer, value, 4, 1, 1
    return made


def copy(source: int, target: int) -> Any:
    made = r.cudaMemcpy3DParms()
    made.srcPtr, made.dstPtr = r.make_cudaPitchedPtr(source, 4, 4, 1), r.make_cudaPitchedPtr(target, 4, 4, 1)
    made.extent, made.kind = r.make_cudaExtent(4, 1, 1), WITHIN
    return made


def kernel(function: Any, pointer: int, n: int) -> Any:
    made = r.cudaKernelNodeParams()
    made.func = int(function)
    for size in (made.gridDim, made.blockDim):
        size.x = size.y = size.z = 1
    made.kernelParams = ((pointer, n), (ctypes.c_void_p, ctypes.c_int))
    return made


def test_memcpy_and_memset_nodes_run_with_changed_parameters(
    graph: Any, run: Any, base: int, ints: Any, check: Any
) -> None:
    first = check(r.cudaGraphAddMemsetNode(graph, None, 0, fill(base, 3)))
    second = check(r.cudaGraphAddMemcpyNode(graph, [first], 1, copy(base, base + 4)))
    assert int(check(r.cudaGraphMemcpyNodeGetParams(second)).dstPtr.ptr) == base + 4
    run(graph)
    assert ints(base, 3) == [3, 3, 0]
    check(r.cudaGraphMemsetNodeSetParams(first, fill(base, 4)))
    check(r.cudaGraphMemcpyNodeSetParams(second, copy(base, base + 8)))
    run(graph)
    check(r.cudaGraphMemcpyNodeSetParams1D(second, base + 12, base, 4, WITHIN))
    run(graph)
    assert ints(base, 4) == [4, 3, 4, 4]
    run(graph, lambda executable: check(r.cudaGraphExecMemcpyNodeSetParams(executable, second, copy(base, base + 16))))
    run(
        graph,
        lambda executable: check(r.cudaGraphExecMemcpyNodeSetParams1D(executable, second, base + 20, base, 4, WITHIN)),
    )
    assert ints(base, 6) == [4, 3, 4, 4, 4, 4]


def test_kernel_nodes_copy_attributes_and_run_with_changed_parameters(
    graph: Any, run: Any, base: int, ints: Any, compile_kernel: Any, check: Any
) -> None:
    function = compile_kernel(ADD, "add")
    first = check(r.cudaGraphAddKernelNode(graph, None, 0, kernel(function, base, 1)))
    second = check(r.cudaGraphAddKernelNode(graph, [first], 1, kernel(function, base, 10)))
    assert check(r.cudaGraphKernelNodeGetParams(second)).blockDim.x == 1
    priority = r.cudaLaunchAttributeID.cudaLaunchAttributePriority
    value = r.cudaKernelNodeAttrValue()
    value.priority = check(r.cudaDeviceGetStreamPriorityRange())[1]
    check(r.cudaGraphKernelNodeSetAttribute(first, priority, value))
    check(r.cudaGraphKernelNodeCopyAttributes(second, first))
    assert check(r.cudaGraphKernelNodeGetAttribute(second, priority)).priority == value.priority
    check(r.cudaGraphKernelNodeSetParams(second, kernel(function, base, 20)))
    run(graph)
    assert ints(base, 1) == [21]

    def change(executable: Any) -> None:
        check(r.cudaGraphExecKernelNodeSetParams(executable, second, kernel(function, base, 300)))
        check(r.cudaGraphNodeSetEnabled(executable, first, 0))
        assert check(r.cudaGraphNodeGetEnabled(executable, first)) == 0

    run(graph, change)
    assert ints(base, 1) == [321]


def test_event_host_and_child_graph_nodes_run(graph: Any, run: Any, base: int, ints: Any, check: Any) -> None:
    one, two = check(r.cudaEventCreate()), check(r.cudaEventCreate())
    record = check(r.cudaGraphAddEventRecordNode(graph, None, 0, one))
    wait = check(r.cudaGraphAddEventWaitNode(graph, [record], 1, one))
    check(r.cudaGraphEventRecordNodeSetEvent(record, two))
    check(r.cudaGraphEventWaitNodeSetEvent(wait, two))
    assert (
        int(check(r.cudaGraphEventRecordNodeGetEvent(record)))
        == int(check(r.cudaGraphEventWaitNodeGetEvent(wait)))
        == int(two)
    )
    seen: list[Any] = []
    params = r.cudaHostNodeParams()
    params.fn, params.userData = seen.append, "one"
    host = check(r.cudaGraphAddHostNode(graph, [wait], 1, params))
    assert int(check(r.cudaGraphHostNodeGetParams(host)).fn) != 0
    inner = check(r.cudaGraphCreate(0))
    leaf = check(r.cudaGraphAddMemsetNode(inner, None, 0, fill(base, 3)))
    child = check(r.cudaGraphAddChildGraphNode(graph, [host], 1, inner))
    assert check(r.cudaGraphGetNodes(check(r.cudaGraphChildGraphNodeGetGraph(child)), 4))[1] == 1
    check(r.cudaGraphMemsetNodeSetParams(leaf, fill(base, 8)))

    def change(executable: Any) -> None:
        check(r.cudaGraphExecEventRecordNodeSetEvent(executable, record, one))
        check(r.cudaGraphExecEventWaitNodeSetEvent(executable, wait, one))
        check(r.cudaGraphExecChildGraphNodeSetParams(executable, child, inner))

    run(graph)
    assert ints(base, 1) == [3]
    run(graph, change)
    assert ints(base, 1) == [8] and seen == ["one", "one"] and r.cudaEventQuery(one) == (0,)
    check(r.cudaGraphDestroy(inner))
    for event in (one, two):
        check(r.cudaEventDestroy(event))


def test_memory_nodes_allocate_and_free(graph: Any, run: Any, base: int, ints: Any, check: Any) -> None:
    params = r.cudaMemAllocNodeParams()
    params.poolProps.allocType = r.cudaMemAllocationType.cudaMemAllocationTypePinned
    params.poolProps.location.type = r.cudaMemLocationType.cudaMemLocationTypeDevice
    params.bytesize = 64
    first = check(r.cudaGraphAddMemAllocNode(graph, None, 0, params))
    pointer = int(params.dptr)
    assert pointer and int(check(r.cudaGraphMemAllocNodeGetParams(first)).dptr) == pointer
    second = check(r.cudaGraphAddMemsetNode(graph, [first], 1, fill(pointer, 6)))
    third = check(r.cudaGraphAddMemcpyNode1D(graph, [second], 1, base, pointer, 4, WITHIN))
    last = check(r.cudaGraphAddMemFreeNode(graph, [third], 1, pointer))
    assert int(check(r.cudaGraphMemFreeNodeGetParams(last))) == pointer
    run(graph)
    assert ints(base, 1) == [6]


def test_generic_node_parameters_add_and_change_every_node_type(
    graph: Any, run: Any, base: int, ints: Any, compile_kernel: Any, since: Any, check: Any
) -> None:
    since(13000)

    def made(kind: str) -> Any:
        params = r.cudaGraphNodeParams()
        params.type = getattr(KIND, f"cudaGraphNodeType{kind}")
        return params

    def add(params: Any, *before: Any) -> Any:
        return check(r.cudaGraphAddNode(graph, list(before) or None, None, len(before), params))

    p = made("Memset")
    p.memset.dst, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height = base, 2, 4, 1, 1
    first = add(p)
    p = made("Kernel")
    p.kernel.func = int(compile_kernel(ADD, "add"))
    for size in (p.kernel.gridDim, p.kernel.blockDim):
        size.x = size.y = size.z = 1
    p.kernel.kernelParams = ((base, 40), (ctypes.c_void_p, ctypes.c_int))
    second = add(p, first)
    p = made("Memcpy")
    p.memcpy.copyParams = copy(base, base + 4)
    third = add(p, second)
    add(made("Empty"), third)
    run(graph)
    assert ints(base, 2) == [42, 42]
    p = made("Memset")
    p.memset.dst, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height = base, 5, 4, 1, 1
    check(r.cudaGraphNodeSetParams(first, p))
    run(graph)
    assert ints(base, 2) == [45, 45]
    p.memset.value = 9
    run(graph, lambda executable: check(r.cudaGraphExecNodeSetParams(executable, first, p)))
    assert ints(base, 2) == [49, 49]
    since(13020)
    assert check(r.cudaGraphNodeGetParams(first)).memset.value == 5
    assert int(check(r.cudaGraphNodeGetParams(third)).memcpy.copyParams.dstPtr.ptr) == base + 4
    assert check(r.cudaGraphNodeGetParams(second)).kernel.gridDim.x == 1


@pytest.mark.parametrize("newer", [False, True])
def test_conditional_node_runs_the_body_of_its_value(
    newer: bool, graph: Any, run: Any, base: int, ints: Any, since: Any, check: Any
) -> None:
    since(13010 if newer else 13000)
    default = int(r.cudaGraphConditionalHandleFlags.cudaGraphCondAssignDefault)
    if newer:
        handle = check(r.cudaGraphConditionalHandleCreate_v2(graph, check(r.cudaDeviceGetExecutionCtx(0)), 0, default))
    else:
        handle = check(r.cudaGraphConditionalHandleCreate(graph, 0, default))
    p = r.cudaGraphNodeParams()
    p.type = KIND.cudaGraphNodeTypeConditional
    p.conditional.handle, p.conditional.size = handle, 2
    p.conditional.type = r.cudaGraphConditionalNodeType.cudaGraphCondTypeIf
    check(r.cudaGraphAddNode(graph, None, None, 0, p))
    for i, body in enumerate(p.conditional.phGraph_out[:2]):
        check(r.cudaGraphAddMemsetNode(body, None, 0, fill(base + 4 * i, 3)))
    run(graph)
    assert ints(base, 2) == [0, 3]


def test_edges_identifiers_and_dot_output_are_queried(
    graph: Any, base: int, since: Any, check: Any, tmp_path: Path
) -> None:
    nodes = [check(r.cudaGraphAddMemsetNode(graph, None, 0, fill(base + 4 * i, 1))) for i in range(3)]
    check(r.cudaGraphAddDependencies(graph, nodes[:2], nodes[1:], None, 2))
    sources, targets, _, count = check(r.cudaGraphGetEdges(graph, 8))
    assert count == 2 and {(int(a), int(b)) for a, b in zip(sources[:2], targets[:2], strict=True)} == {
        (int(nodes[0]), int(nodes[1])), (int(nodes[1]), int(nodes[2]))
    }  # fmt: skip
    assert [int(n) for n in check(r.cudaGraphNodeGetDependencies(nodes[1], 1))[0]] == [int(nodes[0])]
    assert [int(n) for n in check(r.cudaGraphNodeGetDependentNodes(nodes[1], 1))[0]] == [int(nodes[2])]
    check(r.cudaGraphRemoveDependencies(graph, nodes[:1], nodes[1:2], None, 1))
    check(r.cudaGraphDestroyNode(nodes[0]))
    assert check(r.cudaGraphGetNodes(graph, 8))[1] == 2
    check(r.cudaGraphDebugDotPrint(graph, str(tmp_path / "g.dot").encode(), 0))
    assert "digraph" in (tmp_path / "g.dot").read_text()
    params = r.cudaGraphInstantiateParams()
    flag = int(r.cudaGraphInstantiateFlags.cudaGraphInstantiateFlagAutoFreeOnLaunch)
    params.flags = flag
    executable = check(r.cudaGraphInstantiateWithParams(graph, params))
    assert params.result_out == r.cudaGraphInstantiateResult.cudaGraphInstantiateSuccess
    assert int(check(r.cudaGraphExecGetFlags(executable))) == flag
    check(r.cudaGraphExecDestroy(executable))
    since(13010)
    executable = check(r.cudaGraphInstantiate(graph, 0))
    assert int(check(r.cudaGraphNodeGetContainingGraph(nodes[1]))) == int(graph)
    assert check(r.cudaGraphNodeGetLocalId(nodes[1])) != check(r.cudaGraphNodeGetLocalId(nodes[2]))
    for number in (r.cudaGraphNodeGetToolsId(nodes[1]), r.cudaGraphGetId(graph), r.cudaGraphExecGetId(executable)):
        assert check(number) >= 0
    check(r.cudaGraphExecDestroy(executable))


def test_user_object_is_destroyed_with_its_graph(context: Any, check: Any) -> None:
    gone: list[Any] = []
    owned = check(r.cudaUserObjectCreate("mine", gone.append, 1, r.cudaUserObjectFlags.cudaUserObjectNoDestructorSync))
    check(r.cudaUserObjectRetain(owned, 2))
    graph = check(r.cudaGraphCreate(0))
    check(r.cudaGraphRetainUserObject(graph, owned, 2, 0))
    check(r.cudaUserObjectRelease(owned, 3))
    check(r.cudaGraphReleaseUserObject(graph, owned, 1))
    assert gone == []
    check(r.cudaGraphDestroy(graph))
    for _ in range(1000):
        if gone:
            break
        check(r.cudaDeviceSynchronize())
    assert gone == ["mine"]
