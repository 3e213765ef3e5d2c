# SPDX-License-Identifier: Apache-2.0
"""CUkernel and CUfunction: where one stands for the other, what graph nodes return, attributes and limits of kernels."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as d

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .b8 table[16];
.const .align 8 .u64 number;
.visible .entry with_constants(.param .u64 out) {
  .reg .b64 %o; .reg .b32 %v; .reg .b64 %n;
  ld.param.u64 %o, [out]; ld.const.u32 %v, [table+4]; ld.const.u64 %n, [number];
  st.global.u32 [%o], %v; st.global.u64 [%o+8], %n;
  ret; }
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
"""


@pytest.fixture(scope="module")
def library(context: Any, check: Any) -> Any:
    return check(d.cuLibraryLoadData(PTX, [], [], 0, [], [], 0))


@pytest.fixture
def bounded(library: Any, check: Any) -> Any:
    return check(d.cuLibraryGetKernel(library, b"bounded"))


QUERIES = {
    "active blocks": lambda f: d.cuOccupancyMaxActiveBlocksPerMultiprocessor(f, 64, 0),
    "active blocks with flags": lambda f: d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(f, 64, 0, 0),
    "available shared memory": lambda f: d.cuOccupancyAvailableDynamicSMemPerBlock(f, 1, 64),
    "attribute": lambda f: d.cuFuncGetAttribute(d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f),
}


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in QUERIES if name != "attribute"),
        pytest.param("attribute", marks=pytest.mark.cpu_only),  # INVALID_HANDLE on an H200
    ],
)
def test_query_accepts_a_kernel_for_a_function(name: str, bounded: Any, check: Any) -> None:
    function = check(d.cuKernelGetFunction(bounded))
    assert check(QUERIES[name](bounded)) == check(QUERIES[name](function))


def test_other_handles_are_not_accepted_for_a_function(library: Any) -> None:
    with pytest.raises(TypeError, match="CUfunction"):
        d.cuFuncGetName(library)


def test_launch_beyond_maxntid_is_an_invalid_value(bounded: Any, stream: Any) -> None:
    function = d.CUfunction(int(bounded))
    assert d.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, 0, 0)[0] == d.CUresult.CUDA_SUCCESS
    assert d.cuLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, stream, 0, 0)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE


def test_constant_bytes_count_the_constants_of_the_kernel(library: Any, bounded: Any, check: Any) -> None:
    what = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
    kernel = check(d.cuLibraryGetKernel(library, b"with_constants"))
    assert check(d.cuKernelGetAttribute(what, kernel, 0)) == 24
    assert check(d.cuKernelGetAttribute(what, bounded, 0)) == 24  # of the whole module
    alone = check(d.cuLibraryLoadData(PTX.replace(b".const", b".global"), [], [], 0, [], [], 0))
    assert check(d.cuKernelGetAttribute(what, check(d.cuLibraryGetKernel(alone, b"bounded")), 0)) == 0
    check(d.cuLibraryUnload(alone))


def test_captured_launch_of_a_kernel_returns_function_and_kernel(bounded: Any, stream: Any, check: Any) -> None:
    function = check(d.cuKernelGetFunction(bounded))
    check(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    check(d.cuLaunchKernel(d.CUfunction(int(bounded)), 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
    graph = check(d.cuStreamEndCapture(stream))
    nodes, _ = check(d.cuGraphGetNodes(graph, 1))
    params = check(d.cuGraphKernelNodeGetParams(nodes[0]))
    assert (int(params.func), int(params.kern)) == (int(function), int(bounded))
    check(d.cuGraphKernelNodeSetParams(nodes[0], params))  # valid with both
    again = check(d.cuGraphAddKernelNode(graph, [], 0, params))
    back = check(d.cuGraphKernelNodeGetParams(again))
    assert (int(back.func), int(back.kern)) == (int(function), int(bounded))
    check(d.cuGraphDestroy(graph))


def test_end_of_a_capture_without_a_graph_pointer_succeeds(stream: Any, check: Any) -> None:
    import ctypes

    check(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    found, status = check(d.cuGetProcAddress(b"cuStreamEndCapture", 12000, 0))
    assert int(status) == 0
    end = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(int(found))
    assert end(int(stream), None) == 0
    assert check(d.cuStreamIsCapturing(stream)) == d.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
