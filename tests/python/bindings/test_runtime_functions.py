# SPDX-License-Identifier: Apache-2.0
"""A few functions of each group of the runtime API."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver
from cuda.bindings import runtime as r

SOURCE = rb"""
__device__ int total = 5;
extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n + total - 5); }
"""


@pytest.fixture(autouse=True)
def started(check: Any) -> Any:
    check(r.cudaSetDevice(0))
    yield
    check(r.cudaDeviceSynchronize())
    assert r.cudaGetLastError() == (0,)


@pytest.fixture
def memory(check: Any) -> Any:
    made = check(r.cudaMalloc(4096))
    check(r.cudaMemset(made, 0, 4096))
    yield int(made)
    check(r.cudaFree(made))


@pytest.fixture
def stream(check: Any) -> Any:
    made = check(r.cudaStreamCreate())
    yield made
    check(r.cudaStreamDestroy(made))


@pytest.fixture
def library(check: Any, compile_ptx: Any) -> Any:
    made = check(r.cudaLibraryLoadData(compile_ptx(SOURCE), [], [], 0, [], [], 0))
    yield made
    check(r.cudaLibraryUnload(made))


def test_device_queries_return_values(check: Any) -> None:
    assert check(r.cudaGetDeviceCount()) >= 1 and check(r.cudaGetDevice()) == 0
    properties = check(r.cudaGetDeviceProperties(0))
    assert properties.major >= 7 and properties.warpSize == 32 and properties.name.strip(b"\0")
    warp = r.cudaDeviceAttr.cudaDevAttrWarpSize
    assert check(r.cudaDeviceGetAttribute(warp, 0)) == 32
    bus = check(r.cudaDeviceGetPCIBusId(64, 0)).split(b"\0")[0]
    assert check(r.cudaDeviceGetByPCIBusId(bus)) == 0
    assert check(r.cudaChooseDevice(properties)) == 0
    assert isinstance(check(r.cudaGetDeviceFlags()), int)
    least, most = check(r.cudaDeviceGetStreamPriorityRange())
    assert most <= 0 <= least
    limit = r.cudaLimit.cudaLimitPrintfFifoSize
    before = check(r.cudaDeviceGetLimit(limit))
    check(r.cudaDeviceSetLimit(limit, before))
    pool = check(r.cudaDeviceGetDefaultMemPool(0))
    assert int(check(r.cudaDeviceGetMemPool(0))) == int(pool)
    used = r.cudaGraphMemAttributeType.cudaGraphMemAttrUsedMemCurrent
    assert int(check(r.cudaDeviceGetGraphMemAttribute(0, used))) >= 0
    check(r.cudaDeviceGraphMemTrim(0))
    assert check(r.cudaDriverGetVersion()) >= 12000 and check(r.cudaRuntimeGetVersion()) >= 12000
    check(r.cudaInitDevice(0, 0, 0))
    check(r.cudaSetValidDevices([0], 1))


def test_memory_of_every_kind_is_allocated_and_set(memory: int, stream: Any, check: Any, ints: Any) -> None:
    kind = r.cudaMemcpyKind
    check(r.cudaMemsetAsync(memory, 1, 8, stream))
    check(r.cudaMemset2D(memory + 64, 32, 2, 4, 2))
    check(r.cudaMemset2DAsync(memory + 128, 32, 3, 4, 2, stream))
    check(r.cudaMemcpyAsync(memory + 256, memory, 8, kind.cudaMemcpyDeviceToDevice, stream))
    check(r.cudaMemcpy2D(memory + 512, 4, memory + 64, 32, 4, 2, kind.cudaMemcpyDeviceToDevice))
    check(r.cudaMemcpy2DAsync(memory + 520, 4, memory + 128, 32, 4, 2, kind.cudaMemcpyDeviceToDevice, stream))
    check(r.cudaStreamSynchronize(stream))
    got = ints(memory, 256)
    one, two, three = 0x01010101, 0x02020202, 0x03030303
    assert (got[0], got[16], got[24], got[32], got[40], got[64]) == (one, two, two, three, three, one)
    assert got[128:132] == [two, two, three, three]
    host = check(r.cudaHostAlloc(64, r.cudaHostAllocMapped))
    assert check(r.cudaHostGetFlags(host)) & r.cudaHostAllocMapped and check(r.cudaHostGetDevicePointer(host, 0))
    check(r.cudaFreeHost(host))
    check(r.cudaFreeHost(check(r.cudaMallocHost(64))))
    managed = check(r.cudaMallocManaged(64, r.cudaMemAttachGlobal))
    ctypes.memset(int(managed), 1, 64)
    check(r.cudaFree(managed))
    pitched, pitch = check(r.cudaMallocPitch(100, 4))
    assert pitch >= 100
    check(r.cudaFree(pitched))
    free, total = check(r.cudaMemGetInfo())
    assert 0 < free <= total
    attributes = check(r.cudaPointerGetAttributes(memory))
    assert attributes.type == r.cudaMemoryType.cudaMemoryTypeDevice and attributes.device == 0


def test_memory_pool_attributes_and_access_are_set(stream: Any, check: Any) -> None:
    properties = r.cudaMemPoolProps()
    properties.allocType = r.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = r.cudaMemLocationType.cudaMemLocationTypeDevice
    pool = check(r.cudaMemPoolCreate(properties))
    threshold = r.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
    check(r.cudaMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(1 << 20)))
    assert int(check(r.cudaMemPoolGetAttribute(pool, threshold))) == 1 << 20
    pointer = check(r.cudaMallocFromPoolAsync(256, pool, stream))
    check(r.cudaMemsetAsync(pointer, 1, 256, stream))
    check(r.cudaFreeAsync(pointer, stream))
    check(r.cudaFreeAsync(check(r.cudaMallocAsync(256, stream)), stream))
    check(r.cudaStreamSynchronize(stream))
    check(r.cudaMemPoolTrimTo(pool, 0))
    access = check(r.cudaMemPoolGetAccess(pool, properties.location))
    assert access == r.cudaMemAccessFlags.cudaMemAccessFlagsProtReadWrite
    check(r.cudaMemPoolDestroy(pool))


def test_stream_and_event_queries_return_their_settings(check: Any) -> None:
    _, most = check(r.cudaDeviceGetStreamPriorityRange())
    stream = check(r.cudaStreamCreateWithPriority(r.cudaStreamNonBlocking, most))
    assert (
        check(r.cudaStreamGetPriority(stream)) == most
        and check(r.cudaStreamGetFlags(stream)) == r.cudaStreamNonBlocking
    )
    assert check(r.cudaStreamGetDevice(stream)) == 0 and check(r.cudaStreamGetId(stream)) > 0
    first, second = check(r.cudaEventCreate()), check(r.cudaEventCreateWithFlags(0))
    check(r.cudaEventRecord(first, stream))
    check(r.cudaStreamWaitEvent(stream, first, 0))
    check(r.cudaEventRecordWithFlags(second, stream, 0))
    check(r.cudaEventSynchronize(second))
    assert check(r.cudaEventElapsedTime(first, second)) >= 0
    assert r.cudaEventQuery(second) == (0,) and r.cudaStreamQuery(stream) == (0,)
    seen: list[Any] = []
    check(r.cudaLaunchHostFunc(stream, seen.append, "data"))
    check(r.cudaStreamSynchronize(stream))
    assert seen == ["data"]
    for event in (first, second):
        check(r.cudaEventDestroy(event))
    check(r.cudaStreamDestroy(stream))


def test_library_kernels_and_occupancy_are_queried(
    library: Any, memory: int, stream: Any, check: Any, ints: Any
) -> None:
    kernel = check(r.cudaLibraryGetKernel(library, b"add"))
    assert check(r.cudaLibraryGetKernelCount(library)) == 1
    assert [int(k) for k in check(r.cudaLibraryEnumerateKernels(1, library))] == [int(kernel)]
    pointer, size = check(r.cudaLibraryGetGlobal(library, b"total"))
    assert size == 4 and ints(int(pointer), 1) == [5]
    attributes = check(r.cudaFuncGetAttributes(kernel))
    assert attributes.maxThreadsPerBlock >= 256
    shared = r.cudaFuncAttribute.cudaFuncAttributeMaxDynamicSharedMemorySize
    check(r.cudaFuncSetAttribute(kernel, shared, 1024))
    assert check(r.cudaFuncGetAttributes(kernel)).maxDynamicSharedSizeBytes == 1024
    assert check(r.cudaOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 128, 0)) >= 1
    assert check(r.cudaOccupancyAvailableDynamicSMemPerBlock(kernel, 1, 128)) >= 1024
    values = ((memory, 7), (ctypes.c_void_p, ctypes.c_int))
    one = r.dim3()
    one.x = one.y = one.z = 1
    check(r.cudaLaunchKernel(kernel, one, one, values, 0, stream))
    check(r.cudaStreamSynchronize(stream))
    assert ints(memory, 1) == [7]


def test_graph_nodes_and_edges_are_queried(memory: int, stream: Any, check: Any, ints: Any) -> None:
    graph = check(r.cudaGraphCreate(0))
    fill = r.cudaMemsetParams()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = memory, 3, 4, 4, 1
    first = check(r.cudaGraphAddMemsetNode(graph, None, 0, fill))
    second = check(
        r.cudaGraphAddMemcpyNode1D(
            graph, [first], 1, memory + 64, memory, 16, r.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        )
    )
    third = check(r.cudaGraphAddEmptyNode(graph, [second], 1))
    nodes, count = check(r.cudaGraphGetNodes(graph, 5))
    assert count == 3 and {int(n) for n in nodes[:3]} == {int(first), int(second), int(third)}
    assert [int(n) for n in check(r.cudaGraphGetRootNodes(graph, 1))[0]] == [int(first)]
    kinds = [check(r.cudaGraphNodeGetType(n)).name for n in (first, second, third)]
    assert kinds == ["cudaGraphNodeTypeMemset", "cudaGraphNodeTypeMemcpy", "cudaGraphNodeTypeEmpty"]
    assert check(r.cudaGraphMemsetNodeGetParams(first)).value == 3
    clone = check(r.cudaGraphClone(graph))
    executable = check(r.cudaGraphInstantiate(clone, 0))
    check(r.cudaGraphUpload(executable, stream))
    check(r.cudaGraphLaunch(executable, stream))
    check(r.cudaStreamSynchronize(stream))
    assert ints(memory, 20)[16:] == [3] * 4
    fill.value = 4
    check(r.cudaGraphExecMemsetNodeSetParams(executable, check(r.cudaGraphNodeFindInClone(first, clone)), fill))
    check(r.cudaGraphLaunch(executable, stream))
    check(r.cudaStreamSynchronize(stream))
    assert ints(memory, 20)[16:] == [4] * 4
    assert check(r.cudaGraphExecUpdate(executable, graph)).result.name.endswith("Success")
    check(r.cudaGraphExecDestroy(executable))
    check(r.cudaGraphDestroy(clone))
    check(r.cudaGraphDestroy(graph))
    check(r.cudaStreamBeginCapture(stream, r.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
    assert check(r.cudaStreamIsCapturing(stream)).name.endswith("Active")
    check(r.cudaMemsetAsync(memory, 9, 4, stream))
    graph = check(r.cudaStreamEndCapture(stream))
    seen: list[Any] = []
    kept = check(r.cudaUserObjectCreate("mine", seen.append, 1, r.cudaUserObjectFlags.cudaUserObjectNoDestructorSync))
    check(r.cudaGraphRetainUserObject(graph, kept, 1, r.cudaUserObjectRetainFlags.cudaGraphUserObjectMove))
    check(r.cudaGraphDestroy(graph))
    for _ in range(1000):
        if seen:
            break
        check(r.cudaDeviceSynchronize())
    assert seen == ["mine"]


def test_arrays_and_mipmaps_are_copied_and_queried(check: Any) -> None:
    one = check(r.cudaCreateChannelDesc(8, 0, 0, 0, r.cudaChannelFormatKind.cudaChannelFormatKindUnsigned))
    array = check(r.cudaMallocArray(one, 8, 4, 0))
    desc, extent, flags = check(r.cudaArrayGetInfo(array))
    assert (desc.x, extent.width, extent.height, flags) == (8, 8, 4, 0)
    kind = r.cudaMemcpyKind
    check(r.cudaMemcpy2DToArray(array, 0, 0, bytes(range(32)), 8, 8, 4, kind.cudaMemcpyHostToDevice))
    back = bytearray(32)
    check(r.cudaMemcpy2DFromArray(back, 8, array, 0, 0, 8, 4, kind.cudaMemcpyDeviceToHost))
    assert back == bytes(range(32))
    check(r.cudaFreeArray(array))
    size = r.cudaExtent()
    size.width, size.height, size.depth = 8, 8, 0
    mipmap = check(r.cudaMallocMipmappedArray(one, size, 2, 0))
    level = check(r.cudaGetMipmappedArrayLevel(mipmap, 1))
    assert check(r.cudaArrayGetInfo(level))[1].width == 4
    check(r.cudaFreeMipmappedArray(mipmap))


def test_ipc_handles_and_errors_are_queried(memory: int, check: Any) -> None:
    handle = check(r.cudaIpcGetMemHandle(memory))
    assert any(ctypes.string_at(handle.getPtr(), 64))
    assert check(r.cudaGetErrorName(r.cudaError_t.cudaErrorInvalidValue)) == b"cudaErrorInvalidValue"
    assert check(r.cudaGetErrorString(r.cudaError_t.cudaErrorInvalidValue))
    check(r.cudaProfilerStart())
    check(r.cudaProfilerStop())
    relaxed = r.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    previous = check(r.cudaThreadExchangeStreamCaptureMode(relaxed))
    assert check(r.cudaThreadExchangeStreamCaptureMode(previous)) == relaxed
    address, status = check(r.cudaGetDriverEntryPoint(b"cuInit", 0))
    assert address and status == r.cudaDriverEntryPointQueryResult.cudaDriverEntryPointSuccess
