# SPDX-License-Identifier: Apache-2.0
"""Updates of executable graphs and their errors; edges with ports; enabled nodes; conditional bodies."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as d

PTX = b"""
.version 8.3
.target sm_90
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 value) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [to]; ld.param.u32 %v, [value];
  red.global.add.u32 [%p], %v;
  ret; }
.visible .entry twice(.param .u64 to, .param .u32 value) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [to]; ld.param.u32 %v, [value];
  red.global.add.u32 [%p], %v; red.global.add.u32 [%p], %v;
  ret; }
.visible .entry first(.param .u64 to, .param .u32 value) { griddepcontrol.launch_dependents; ret; }
"""


@pytest.fixture(scope="module")
def kernels(context: Any, check: Any) -> dict[str, Any]:
    module = check(d.cuModuleLoadData(PTX))
    return {name: check(d.cuModuleGetFunction(module, name.encode())) for name in ("add", "twice", "first")}


@pytest.fixture
def memory(context: Any, check: Any) -> Any:
    address = check(d.cuMemAlloc(4096))
    check(d.cuMemsetD32(address, 0, 1024))
    yield address
    check(d.cuMemFree(address))


def kernel_params(function: Any, memory: Any, value: int, blocks: int = 1) -> Any:
    p = d.CUDA_KERNEL_NODE_PARAMS()
    p.func = function
    p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ = blocks, 1, 1, 1, 1, 1
    p.kernelParams = ((int(memory), value), (ctypes.c_uint64, ctypes.c_uint32))
    return p


def word(check: Any, memory: Any, at: int = 0) -> int:
    value = ctypes.c_uint32()
    check(d.cuMemcpyDtoH(ctypes.addressof(value), int(memory) + 4 * at, 4))
    return value.value


def launch(check: Any, executable: Any, stream: Any) -> None:
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))


def chain(check: Any, kernels: Any, memory: Any, names: list[str], value: int = 1) -> tuple[Any, list[Any]]:
    graph, nodes = check(d.cuGraphCreate(0)), []
    for name in names:
        nodes.append(
            check(
                d.cuGraphAddKernelNode(
                    graph, nodes[-1:] or None, min(len(nodes), 1), kernel_params(kernels[name], memory, value)
                )
            )
        )
    return graph, nodes


def test_update_takes_the_parameters_of_the_graph(
    context: Any, check: Any, stream: Any, kernels: Any, memory: Any
) -> None:
    graph, _ = chain(check, kernels, memory, ["add", "add"])
    executable = check(d.cuGraphInstantiate(graph, 0))
    again, _ = chain(check, kernels, memory, ["add", "add"], 50)
    assert check(d.cuGraphExecUpdate(executable, again)).result == 0
    launch(check, executable, stream)
    assert word(check, memory) == 100
    for thing in (graph, again):
        check(d.cuGraphDestroy(thing))
    check(d.cuGraphExecDestroy(executable))


def test_incompatible_update_returns_an_error_and_changes_nothing(
    context: Any, check: Any, stream: Any, kernels: Any, memory: Any
) -> None:
    graph, _ = chain(check, kernels, memory, ["add", "add"])
    executable = check(d.cuGraphInstantiate(graph, 0))
    longer, _ = chain(check, kernels, memory, ["add", "add", "add"])
    apart = check(d.cuGraphCreate(0))
    for _ in range(2):
        check(d.cuGraphAddKernelNode(apart, None, 0, kernel_params(kernels["add"], memory, 1)))
    other, nodes = chain(check, kernels, memory, ["add"])
    check(d.cuGraphAddEmptyNode(other, nodes, 1))
    for wrong in (longer, apart, other):
        assert int(d.cuGraphExecUpdate(executable, wrong)[0]) == 910
    launch(check, executable, stream)
    assert word(check, memory) == 2
    for thing in (graph, longer, apart, other):
        check(d.cuGraphDestroy(thing))
    check(d.cuGraphExecDestroy(executable))


def test_single_nodes_are_updated_disabled_and_enabled(
    context: Any, check: Any, stream: Any, kernels: Any, memory: Any
) -> None:
    graph, nodes = chain(check, kernels, memory, ["add", "add"])
    executable = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphExecKernelNodeSetParams(executable, nodes[1], kernel_params(kernels["twice"], memory, 10)))
    launch(check, executable, stream)
    assert word(check, memory) == 21
    check(d.cuGraphNodeSetEnabled(executable, nodes[1], 0))
    assert check(d.cuGraphNodeGetEnabled(executable, nodes[1])) == 0
    launch(check, executable, stream)
    assert word(check, memory) == 22
    check(d.cuGraphNodeSetEnabled(executable, nodes[1], 1))
    check(d.cuGraphUpload(executable, stream))
    launch(check, executable, stream)
    assert word(check, memory) == 43
    check(d.cuGraphDestroy(graph))
    check(d.cuGraphExecDestroy(executable))


def test_edges_have_their_ports_and_types(context: Any, check: Any, stream: Any, kernels: Any, memory: Any) -> None:
    graph = check(d.cuGraphCreate(0))
    first = check(d.cuGraphAddKernelNode(graph, None, 0, kernel_params(kernels["first"], memory, 1)))
    second = check(d.cuGraphAddKernelNode(graph, None, 0, kernel_params(kernels["add"], memory, 5)))
    edge = d.CUgraphEdgeData()
    edge.from_port = 1  # CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    edge.type = int(d.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    check(d.cuGraphAddDependencies(graph, [first], [second], [edge], 1))
    sources, targets, data, count = check(d.cuGraphGetEdges(graph, 4))
    assert count == 1 and (int(sources[0]), int(targets[0])) == (int(first), int(second))
    assert (data[0].from_port, data[0].to_port, data[0].type) == (1, 0, 1)
    executable = check(d.cuGraphInstantiate(graph, 0))
    launch(check, executable, stream)
    assert word(check, memory) == 5
    check(d.cuGraphRemoveDependencies(graph, [first], [second], [edge], 1))
    assert check(d.cuGraphGetEdges(graph, 4))[3] == 0
    check(d.cuGraphDestroy(graph))
    check(d.cuGraphExecDestroy(executable))


def test_cycle_or_duplicate_edge_returns_an_error(context: Any, check: Any, kernels: Any, memory: Any) -> None:
    graph, nodes = chain(check, kernels, memory, ["add", "add"])
    assert int(d.cuGraphAddDependencies(graph, [nodes[0]], [nodes[1]], None, 1)[0]) == 1
    code = int(d.cuGraphAddDependencies(graph, [nodes[1]], [nodes[0]], None, 1)[0])
    assert code == 1 or int(d.cuGraphInstantiate(graph, 0)[0]) == 1
    check(d.cuGraphDestroy(graph))
