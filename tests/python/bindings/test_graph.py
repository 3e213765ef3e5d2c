# SPDX-License-Identifier: Apache-2.0
"""Graphs through the driver and runtime bindings: nodes, edges, parameters, captures, lifetime of host functions."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
from cuda.bindings import driver, runtime

ADD = 'extern "C" __global__ void add(int *p, int v) { *p += v; }'


@pytest.fixture
def cell(context: Any, check: Any) -> Any:
    pointer = check(driver.cuMemAlloc(4))
    check(driver.cuMemsetD32(pointer, 0, 1))
    yield pointer
    check(driver.cuMemFree(pointer))


def value_of(cell: Any, check: Any) -> int:
    value = ctypes.c_int()
    check(driver.cuMemcpyDtoH(ctypes.addressof(value), cell, 4))
    return value.value


def run(graph: Any, stream: Any, check: Any, times: int = 1) -> None:
    executable = check(driver.cuGraphInstantiate(graph, 0))
    for _ in range(times):
        check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuStreamSynchronize(stream))
    check(driver.cuGraphExecDestroy(executable))


def test_graph_with_a_kernel_and_a_host_node_runs(compile_kernel: Any, cell: Any, stream: Any, check: Any) -> None:
    seen: list[Any] = []
    graph = check(driver.cuGraphCreate(0))
    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = compile_kernel(ADD, "add")
    for axis in "XYZ":
        setattr(params, f"gridDim{axis}", 1)
        setattr(params, f"blockDim{axis}", 1)
    params.kernelParams = ((cell, 5), (None, ctypes.c_int))
    first = check(driver.cuGraphAddKernelNode(graph, None, 0, params))
    host = driver.CUDA_HOST_NODE_PARAMS()
    host.fn = seen.append
    host.userData = ["kept"]
    second = check(driver.cuGraphAddHostNode(graph, [first], 1, host))
    del host
    gc.collect()
    run(graph, stream, check, times=3)
    assert value_of(cell, check) == 15
    assert seen == [["kept"]] * 3
    assert check(driver.cuGraphGetNodes(graph)) == ([], 2)
    assert set(check(driver.cuGraphGetNodes(graph, 2))[0]) == {first, second}
    sources, targets, edges, count = check(driver.cuGraphGetEdges(graph, 4))
    assert (sources, targets, len(edges), count) == ([first], [second], 1, 1)
    assert check(driver.cuGraphNodeGetType(first)) is driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    assert check(driver.cuGraphKernelNodeGetParams(first)).gridDimX == 1
    check(driver.cuGraphDestroy(graph))


def test_captured_host_function_is_kept_by_the_graph(cell: Any, stream: Any, check: Any) -> None:
    seen: list[Any] = []
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    check(driver.cuMemsetD32Async(cell, 9, 1, stream))
    check(driver.cuLaunchHostFunc(stream, lambda data: seen.append(data), "data"))
    status, _, graph, dependencies, edges, count = check(driver.cuStreamGetCaptureInfo(stream))
    assert status is driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    assert isinstance(graph, driver.CUgraph)
    assert count == len(dependencies) == 1
    assert isinstance(dependencies[0], driver.CUgraphNode)
    assert edges == [] or isinstance(edges[0], driver.CUgraphEdgeData)
    graph = check(driver.cuStreamEndCapture(stream))
    gc.collect()
    run(graph, stream, check, times=2)
    assert value_of(cell, check) == 9
    assert seen == ["data", "data"]
    check(driver.cuGraphDestroy(graph))


def test_runtime_graph_runs(cell: Any, check: Any) -> None:
    graph = check(runtime.cudaGraphCreate(0))
    params = runtime.cudaMemsetParams()
    params.dst, params.value, params.elementSize, params.width, params.height = int(cell), 3, 4, 1, 1
    fill = check(runtime.cudaGraphAddMemsetNode(graph, None, 0, params))
    back = ctypes.c_int()
    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    check(runtime.cudaGraphAddMemcpyNode1D(graph, [fill], 1, ctypes.addressof(back), int(cell), 4, kind))
    executable = check(runtime.cudaGraphInstantiate(graph, 0))
    check(runtime.cudaGraphLaunch(executable, 0))
    check(runtime.cudaStreamSynchronize(0))
    assert back.value == 3
    assert check(runtime.cudaGraphMemsetNodeGetParams(fill)).value == 3
    check(runtime.cudaGraphExecDestroy(executable))
    check(runtime.cudaGraphDestroy(graph))


def test_dependency_list_shorter_than_its_count_raises(context: Any) -> None:
    with pytest.raises(ValueError, match="dependencies has 0 elements, but numDependencies is 1"):
        driver.cuGraphAddEmptyNode(0, [], 1)
