# SPDX-License-Identifier: Apache-2.0
"""A few functions of each group of the driver API: arguments and results are passed in the right places."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pytest
from cuda.bindings import driver as d

SOURCE = r"""
__device__ int total = 5;
__constant__ float table[4];
extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n + total - 5); }
extern "C" __global__ void other(double a, char b, int* p) { *p = a + b + table[0]; }
"""


@pytest.fixture
def ptx(context: Any, compile_ptx: Any) -> bytes:
    return compile_ptx(SOURCE)


@pytest.fixture
def library(ptx: bytes, check: Any) -> Any:
    made = check(d.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
    yield made
    check(d.cuLibraryUnload(made))


# ---- devices and contexts


def test_device_queries_return_values(device: Any, context: Any, check: Any) -> None:
    assert check(d.cuDeviceGetCount()) >= 1
    assert check(d.cuDeviceGetName(128, device)).strip(b"\0")
    assert len(check(d.cuDeviceGetUuid(device)).bytes) == 16
    assert check(d.cuDeviceTotalMem(device)) > 1 << 20
    assert check(d.cuDeviceComputeCapability(device))[0] >= 7
    bus = check(d.cuDeviceGetPCIBusId(64, device)).split(b"\0")[0]
    assert int(check(d.cuDeviceGetByPCIBusId(bus))) == int(device)
    flags, active = check(d.cuDevicePrimaryCtxGetState(device))
    assert active and flags >= 0
    assert check(d.cuDriverGetVersion()) >= 12000
    pool = check(d.cuDeviceGetDefaultMemPool(device))
    assert int(check(d.cuDeviceGetMemPool(device))) == int(pool)
    check(d.cuDeviceSetMemPool(device, pool))
    assert check(d.cuDeviceGetTexture1DLinearMaxWidth(d.CUarray_format.CU_AD_FORMAT_FLOAT, 1, device)) > 1000
    used = d.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
    assert int(check(d.cuDeviceGetGraphMemAttribute(device, used))) >= 0
    check(d.cuDeviceGraphMemTrim(device))
    support = d.CUexecAffinityType.CU_EXEC_AFFINITY_TYPE_SM_COUNT
    assert check(d.cuDeviceGetExecAffinitySupport(support, device)) in (0, 1, False, True)


def test_contexts_are_created_pushed_popped_and_destroyed(device: Any, context: Any, check: Any) -> None:
    assert int(check(d.cuCtxGetCurrent())) == int(context)
    assert int(check(d.cuCtxGetDevice())) == int(device)
    check(d.cuCtxPushCurrent(context))
    assert int(check(d.cuCtxPopCurrent())) == int(context)
    assert check(d.cuCtxGetId(context)) == check(d.cuCtxGetId(None))
    assert check(d.cuCtxGetApiVersion(context)) > 3000
    limit = d.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE
    assert check(d.cuCtxGetLimit(limit)) > 0
    least, most = check(d.cuCtxGetStreamPriorityRange())
    assert most <= 0 <= least
    assert isinstance(check(d.cuCtxGetFlags()), int)
    event = check(d.cuEventCreate(0))
    check(d.cuCtxRecordEvent(context, event))
    check(d.cuCtxWaitEvent(context, event))
    check(d.cuEventSynchronize(event))
    check(d.cuEventDestroy(event))


def test_green_context_has_the_resources_it_was_created_with(device: Any, context: Any, check: Any) -> None:
    kind = d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    code, whole = d.cuDeviceGetDevResource(device, kind)
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("no green contexts")
    assert code == 0 and whole.sm.smCount >= 1
    groups, count, remainder = check(d.cuDevSmResourceSplitByCount(1, whole, 0, 1))
    assert count == 1 and groups[0].sm.smCount + remainder.sm.smCount <= whole.sm.smCount
    description = check(d.cuDevResourceGenerateDesc([groups[0]], 1))
    green = check(d.cuGreenCtxCreate(description, device, d.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))
    assert check(d.cuGreenCtxGetDevResource(green, kind)).sm.smCount == groups[0].sm.smCount
    inner = check(d.cuCtxFromGreenCtx(green))
    assert int(inner) not in (0, int(context))
    stream = check(d.cuGreenCtxStreamCreate(green, d.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
    assert int(check(d.cuStreamGetGreenCtx(stream))) == int(green)
    check(d.cuCtxPushCurrent(inner))
    event = check(d.cuEventCreate(0))
    check(d.cuGreenCtxRecordEvent(green, event))
    check(d.cuGreenCtxWaitEvent(green, event))
    check(d.cuEventDestroy(event))
    check(d.cuCtxPopCurrent())
    check(d.cuStreamDestroy(stream))
    check(d.cuGreenCtxDestroy(green))


# ---- code


def test_library_enumerates_its_kernels_and_globals(
    library: Any, device: Any, memory: Any, stream: Any, check: Any, ints: Any
) -> None:
    assert check(d.cuLibraryGetKernelCount(library)) == 2
    kernels = check(d.cuLibraryEnumerateKernels(2, library))
    assert sorted(check(d.cuKernelGetName(kernel)) for kernel in kernels) == [b"add", b"other"]
    kernel = check(d.cuLibraryGetKernel(library, b"other"))
    assert int(check(d.cuKernelGetLibrary(kernel))) == int(library)
    assert [check(d.cuKernelGetParamInfo(kernel, i)) for i in range(3)] == [(0, 8), (8, 1), (16, 8)]
    assert d.cuKernelGetParamInfo(kernel, 3)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
    attribute = d.CUfunction_attribute
    assert check(d.cuKernelGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device)) >= 256
    check(d.cuKernelSetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, device))
    function = check(d.cuKernelGetFunction(kernel))
    assert check(d.cuFuncGetName(function)) == b"other"
    assert check(d.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function)) == 1024
    assert check(d.cuFuncGetParamInfo(function, 1)) == (8, 1)
    assert int(check(d.cuFuncGetModule(function))) == int(check(d.cuLibraryGetModule(library)))
    check(d.cuFuncLoad(function))
    assert check(d.cuFuncIsLoaded(function)) == d.CUfunctionLoadingState.CU_FUNCTION_LOADING_STATE_LOADED
    check(d.cuFuncSetCacheConfig(function, d.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1))
    pointer, size = check(d.cuLibraryGetGlobal(library, b"total"))
    assert size == 4 and ints(pointer, 1) == [5]
    assert d.cuLibraryGetGlobal(library, b"nothing")[0] == d.CUresult.CUDA_ERROR_NOT_FOUND
    add = d.CUfunction(int(check(d.cuLibraryGetKernel(library, b"add"))))  # a kernel is accepted as a function
    values = ((memory, 7), (None, ctypes.c_int))
    check(d.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, values, 0))
    check(d.cuLaunchCooperativeKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, values))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 1) == [2 * 32 * 7]


def test_module_enumerates_its_functions_and_globals(ptx: bytes, context: Any, check: Any, tmp_path: Any) -> None:
    file = tmp_path / "code.ptx"
    file.write_bytes(ptx.rstrip(b"\0"))
    module = check(d.cuModuleLoad(str(file).encode()))
    assert check(d.cuModuleGetFunctionCount(module)) == 2
    functions = check(d.cuModuleEnumerateFunctions(2, module))
    assert sorted(check(d.cuFuncGetName(f)) for f in functions) == [b"add", b"other"]
    pointer, size = check(d.cuModuleGetGlobal(module, b"table"))
    assert int(pointer) and size == 16
    function = check(d.cuModuleGetFunction(module, b"add"))
    blocks = check(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 128, 0))
    assert blocks >= 1
    assert check(d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(function, 128, 0, 0)) == blocks
    grid, block = check(d.cuOccupancyMaxPotentialBlockSize(function, None, 0, 0))
    assert grid >= 1 and block >= 32
    assert check(d.cuOccupancyMaxPotentialBlockSize(function, lambda threads: threads * 4, 0, 0))[1] >= 32
    assert check(d.cuOccupancyAvailableDynamicSMemPerBlock(function, 1, 128)) > 1024
    check(d.cuModuleUnload(module))
    assert isinstance(check(d.cuModuleGetLoadingMode()), d.CUmoduleLoadingMode)
    link = check(d.cuLinkCreate(0, [], []))
    check(d.cuLinkAddData(link, d.CUjitInputType.CU_JIT_INPUT_PTX, ptx, len(ptx), b"one", 0, [], []))
    address, size = check(d.cuLinkComplete(link))
    assert address and size > 100
    module = check(d.cuModuleLoadData(ctypes.string_at(address, size)))
    check(d.cuLinkDestroy(link))
    check(d.cuModuleUnload(module))


# ---- memory


def test_memset_and_copies_of_every_width_write_memory(memory: Any, stream: Any, check: Any, ints: Any) -> None:
    check(d.cuMemsetD32(memory, 7, 4))
    check(d.cuMemsetD16(int(memory) + 16, 0x0101, 8))
    check(d.cuMemsetD8Async(int(memory) + 32, 2, 4, stream))
    check(d.cuMemsetD16Async(int(memory) + 36, 3, 2, stream))
    check(d.cuMemsetD32Async(int(memory) + 40, 4, 1, stream))
    check(d.cuMemsetD2D8(int(memory) + 64, 32, 1, 4, 2))
    check(d.cuMemsetD2D16(int(memory) + 128, 32, 2, 2, 2))
    check(d.cuMemsetD2D32Async(int(memory) + 192, 32, 3, 1, 2, stream))
    check(d.cuStreamSynchronize(stream))
    got = ints(memory, 64)
    assert got[:12] == [7, 7, 7, 7, 0x01010101, 0x01010101, 0x01010101, 0x01010101, 0x02020202, 0x00030003, 4, 0]
    assert (got[16], got[24], got[32], got[40], got[48], got[56]) == (
        0x01010101,
        0x01010101,
        0x00020002,
        0x00020002,
        3,
        3,
    )
    check(d.cuMemcpy(int(memory) + 1024, memory, 64))
    check(d.cuMemcpyDtoDAsync(int(memory) + 1088, memory, 64, stream))
    check(d.cuMemcpyAsync(int(memory) + 1152, memory, 64, stream))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 304)[256:] == got[:16] * 3
    base, size = check(d.cuMemGetAddressRange(int(memory) + 100))
    assert (int(base), size) == (int(memory), 4096)
    free, total = check(d.cuMemGetInfo())
    assert 0 < free <= total


def test_2d_and_3d_copies_preserve_bytes(memory: Any, stream: Any, check: Any) -> None:
    check(d.cuMemcpyHtoD(memory, bytes(range(256)), 256))
    p = d.CUDA_MEMCPY2D()
    p.srcMemoryType = p.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
    p.srcDevice, p.srcPitch, p.dstDevice, p.dstPitch = memory, 16, int(memory) + 1024, 8
    p.WidthInBytes, p.Height, p.srcXInBytes, p.srcY = 4, 3, 2, 1
    check(d.cuMemcpy2D(p))
    back = bytearray(20)
    check(d.cuMemcpyDtoH(back, int(memory) + 1024, 20))
    assert [bytes(back[8 * i : 8 * i + 4]) for i in range(3)] == [
        bytes(range(18 + 16 * i, 22 + 16 * i)) for i in range(3)
    ]
    p.dstDevice = int(memory) + 2048
    check(d.cuMemcpy2DAsync(p, stream))
    check(d.cuMemcpy2DUnaligned(p))
    q = d.CUDA_MEMCPY3D()
    q.srcMemoryType = q.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
    q.srcDevice, q.srcPitch, q.srcHeight = memory, 8, 4
    q.dstDevice, q.dstPitch, q.dstHeight = int(memory) + 3072, 4, 2
    q.WidthInBytes, q.Height, q.Depth = 4, 2, 2
    check(d.cuMemcpy3DAsync(q, stream))
    check(d.cuStreamSynchronize(stream))
    back = bytearray(16)
    check(d.cuMemcpyDtoH(back, int(memory) + 3072, 16))
    assert bytes(back) == bytes([0, 1, 2, 3, 8, 9, 10, 11, 32, 33, 34, 35, 40, 41, 42, 43])


def test_pitched_pinned_managed_and_registered_memory_is_allocated(context: Any, check: Any) -> None:
    pointer, pitch = check(d.cuMemAllocPitch(100, 4, 4))
    assert pitch >= 100
    check(d.cuMemFree(pointer))
    host = check(d.cuMemHostAlloc(256, d.CU_MEMHOSTALLOC_DEVICEMAP))
    assert int(check(d.cuMemHostGetDevicePointer(host, 0)))
    assert check(d.cuMemHostGetFlags(host)) & d.CU_MEMHOSTALLOC_DEVICEMAP
    check(d.cuMemFreeHost(host))
    check(d.cuMemFreeHost(check(d.cuMemAllocHost(64))))
    managed = check(d.cuMemAllocManaged(4096, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL))
    ctypes.memset(int(managed), 3, 4096)
    check(d.cuMemcpyDtoD(int(managed) + 2048, managed, 4))
    check(d.cuMemFree(managed))
    page = (ctypes.c_char * 8192)()
    start = (ctypes.addressof(page) + 4095) // 4096 * 4096
    check(d.cuMemHostRegister(start, 4096, 0))
    check(d.cuMemHostUnregister(start))


def test_memory_pool_attributes_and_access_are_set(device: Any, context: Any, stream: Any, check: Any) -> None:
    properties = d.CUmemPoolProps()
    properties.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    pool = check(d.cuMemPoolCreate(properties))
    threshold = d.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(d.cuMemPoolSetAttribute(pool, threshold, d.cuuint64_t(1 << 20)))
    assert int(check(d.cuMemPoolGetAttribute(pool, threshold))) == 1 << 20
    pointer = check(d.cuMemAllocFromPoolAsync(4096, pool, stream))
    used = d.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    assert int(check(d.cuMemPoolGetAttribute(pool, used))) >= 4096
    assert (
        check(d.cuMemPoolGetAccess(pool, properties.location)) == d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    )
    check(d.cuMemFreeAsync(pointer, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuMemPoolTrimTo(pool, 0))
    assert int(check(d.cuMemPoolGetAttribute(pool, used))) == 0
    check(d.cuMemPoolDestroy(pool))


def test_virtual_memory_is_reserved_mapped_and_accessed(device: Any, context: Any, check: Any, ints: Any) -> None:
    properties = d.CUmemAllocationProp()
    properties.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    minimum = d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    size = check(d.cuMemGetAllocationGranularity(properties, minimum))
    address = check(d.cuMemAddressReserve(2 * size, 0, 0, 0))
    handle = check(d.cuMemCreate(size, properties, 0))
    assert check(d.cuMemGetAllocationPropertiesFromHandle(handle)).location.id == int(device)
    check(d.cuMemMap(address, size, 0, handle, 0))
    access = d.CUmemAccessDesc()
    access.location = properties.location
    access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(d.cuMemSetAccess(address, size, [access], 1))
    assert check(d.cuMemGetAccess(properties.location, address)) == int(access.flags)
    again = check(d.cuMemRetainAllocationHandle(address))
    check(d.cuMemRelease(again))
    check(d.cuMemsetD32(address, 9, 4))
    assert ints(address, 4) == [9] * 4
    check(d.cuMemUnmap(address, size))
    check(d.cuMemRelease(handle))
    check(d.cuMemAddressFree(address, 2 * size))


def test_ipc_handles_are_exported(device: Any, context: Any, memory: Any, check: Any) -> None:
    handle = check(d.cuIpcGetMemHandle(memory))
    assert any(ctypes.string_at(handle.getPtr(), 64))
    event = check(d.cuEventCreate(d.CUevent_flags.CU_EVENT_INTERPROCESS | d.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    assert any(ctypes.string_at(check(d.cuIpcGetEventHandle(event)).getPtr(), 64))
    check(d.cuEventDestroy(event))


# ---- streams, events and graphs


def test_stream_and_event_queries_return_their_settings(context: Any, device: Any, check: Any, ints: Any) -> None:
    _least, most = check(d.cuCtxGetStreamPriorityRange())
    stream = check(d.cuStreamCreateWithPriority(d.CUstream_flags.CU_STREAM_NON_BLOCKING, most))
    assert check(d.cuStreamGetPriority(stream)) == most
    assert check(d.cuStreamGetFlags(stream)) == d.CUstream_flags.CU_STREAM_NON_BLOCKING
    assert int(check(d.cuStreamGetCtx(stream))) == int(context)
    assert int(check(d.cuStreamGetDevice(stream))) == int(device)
    assert check(d.cuStreamGetId(stream)) != check(d.cuStreamGetId(None))
    first, second = check(d.cuEventCreate(0)), check(d.cuEventCreate(0))
    check(d.cuEventRecord(first, stream))
    check(d.cuStreamWaitEvent(stream, first, 0))
    check(d.cuEventRecordWithFlags(second, stream, 0))
    check(d.cuEventSynchronize(second))
    assert check(d.cuEventElapsedTime(first, second)) >= 0
    assert d.cuEventQuery(second) == (0,) and d.cuStreamQuery(stream) == (0,)
    flag = check(d.cuMemAlloc(8))
    check(d.cuStreamWriteValue32(stream, flag, 17, 0))
    check(d.cuStreamWaitValue32(stream, flag, 17, d.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ))
    check(d.cuStreamWriteValue64(stream, flag, 1 << 40, 0))
    check(d.cuStreamSynchronize(stream))
    assert ints(flag, 2) == [0, 256]
    value = d.CUstreamAttrValue()
    value.syncPolicy = d.CUsynchronizationPolicy.CU_SYNC_POLICY_BLOCKING_SYNC
    policy = d.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
    check(d.cuStreamSetAttribute(stream, policy, value))
    assert check(d.cuStreamGetAttribute(stream, policy)).syncPolicy == value.syncPolicy
    other = check(d.cuStreamCreate(0))
    check(d.cuStreamCopyAttributes(other, stream))
    assert check(d.cuStreamGetAttribute(other, policy)).syncPolicy == value.syncPolicy
    for handle in (other, stream):
        check(d.cuStreamDestroy(handle))
    check(d.cuEventDestroy(first))
    check(d.cuEventDestroy(second))
    check(d.cuMemFree(flag))


def test_graph_with_every_simple_node_type_runs(
    memory: Any, stream: Any, context: Any, library: Any, check: Any, ints: Any
) -> None:
    graph = check(d.cuGraphCreate(0))
    fill = d.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = memory, 3, 4, 4, 1
    first = check(d.cuGraphAddMemsetNode(graph, None, 0, fill, context))
    copy = d.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice, copy.WidthInBytes, copy.Height, copy.Depth = memory, int(memory) + 64, 16, 1, 1
    second = check(d.cuGraphAddMemcpyNode(graph, [first], 1, copy, context))
    kernel = d.CUDA_KERNEL_NODE_PARAMS()
    kernel.kern = check(d.cuLibraryGetKernel(library, b"add"))
    kernel.ctx = context
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1
    kernel.kernelParams = ((int(memory) + 64, 10), (ctypes.c_void_p, ctypes.c_int))
    third = check(d.cuGraphAddKernelNode(graph, [second], 1, kernel))
    event = check(d.cuEventCreate(0))
    fourth = check(d.cuGraphAddEventRecordNode(graph, [third], 1, event))
    fifth = check(d.cuGraphAddEventWaitNode(graph, [fourth], 1, event))
    sixth = check(d.cuGraphAddEmptyNode(graph, [fifth], 1))
    nodes = [first, second, third, fourth, fifth, sixth]
    found, count = check(d.cuGraphGetNodes(graph, 10))
    assert count == 6 and {int(n) for n in found[:6]} == {int(n) for n in nodes}
    assert [int(n) for n in check(d.cuGraphGetRootNodes(graph, 1))[0]] == [int(first)]
    sources, targets, _, edges = check(d.cuGraphGetEdges(graph, 10))
    assert edges == 5 and {(int(a), int(b)) for a, b in zip(sources[:5], targets[:5], strict=True)} == {
        (int(a), int(b)) for a, b in itertools.pairwise(nodes)
    }
    assert [int(n) for n in check(d.cuGraphNodeGetDependencies(second, 1))[0]] == [int(first)]
    assert [int(n) for n in check(d.cuGraphNodeGetDependentNodes(second, 1))[0]] == [int(third)]
    kinds = [check(d.cuGraphNodeGetType(n)).name.removeprefix("CU_GRAPH_NODE_TYPE_") for n in nodes]
    assert kinds == ["MEMSET", "MEMCPY", "KERNEL", "EVENT_RECORD", "WAIT_EVENT", "EMPTY"]
    assert check(d.cuGraphMemsetNodeGetParams(first)).value == 3
    assert int(check(d.cuGraphMemcpyNodeGetParams(second)).dstDevice) == int(memory) + 64
    assert check(d.cuGraphKernelNodeGetParams(third)).blockDimX == 1
    assert int(check(d.cuGraphEventRecordNodeGetEvent(fourth))) == int(event)
    clone = check(d.cuGraphClone(graph))
    assert check(d.cuGraphNodeGetType(check(d.cuGraphNodeFindInClone(third, clone)))).name.endswith("KERNEL")
    executable = check(d.cuGraphInstantiate(clone, 0))
    check(d.cuGraphUpload(executable, stream))
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 20)[16:] == [13, 3, 3, 3]
    fill.value = 4
    check(d.cuGraphMemsetNodeSetParams(first, fill))
    assert check(d.cuGraphExecUpdate(executable, graph)).result.name.endswith("SUCCESS")
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 20)[16:] == [14, 4, 4, 4]
    check(d.cuGraphNodeSetEnabled(executable, check(d.cuGraphNodeFindInClone(third, clone)), 0))
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 17)[16:] == [4]
    check(d.cuGraphRemoveDependencies(graph, [fifth], [sixth], None, 1))
    check(d.cuGraphAddDependencies(graph, [first], [sixth], None, 1))
    check(d.cuGraphDestroyNode(sixth))
    for made in (clone, graph):
        check(d.cuGraphDestroy(made))
    check(d.cuGraphExecDestroy(executable))
    check(d.cuEventDestroy(event))


def test_array_returns_its_descriptor(context: Any, check: Any) -> None:
    wanted = d.CUDA_ARRAY_DESCRIPTOR()
    wanted.Width, wanted.Height, wanted.Format, wanted.NumChannels = (
        8,
        4,
        d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8,
        1,
    )
    array = check(d.cuArrayCreate(wanted))
    got = check(d.cuArrayGetDescriptor(array))
    assert (got.Width, got.Height, got.Format, got.NumChannels) == (8, 4, wanted.Format, 1)
    check(d.cuArrayDestroy(array))
    wanted.Height = 0
    array = check(d.cuArrayCreate(wanted))
    check(d.cuMemcpyHtoA(array, 0, bytes(range(8)), 8))
    back = bytearray(8)
    check(d.cuMemcpyAtoH(back, array, 0, 8))
    assert back == bytes(range(8))
    check(d.cuArrayDestroy(array))
    deep = d.CUDA_ARRAY3D_DESCRIPTOR()
    deep.Width, deep.Height, deep.Depth, deep.Format, deep.NumChannels = 8, 8, 2, wanted.Format, 1
    array = check(d.cuArray3DCreate(deep))
    assert check(d.cuArray3DGetDescriptor(array)).Depth == 2
    check(d.cuArrayDestroy(array))


def test_entry_points_errors_and_versions_are_queried(context: Any, check: Any) -> None:
    check(d.cuProfilerStart())
    check(d.cuProfilerStop())
    address, status = check(d.cuGetProcAddress(b"cuInit", 12000, 0))
    assert address and status == d.CUdriverProcAddressQueryResult.CU_GET_PROC_ADDRESS_SUCCESS
    assert check(d.cuGetErrorName(d.CUresult.CUDA_ERROR_INVALID_VALUE)) == b"CUDA_ERROR_INVALID_VALUE"
    assert check(d.cuGetErrorString(d.CUresult.CUDA_ERROR_INVALID_VALUE))
    mode = d.CUstreamCaptureMode
    previous = check(d.cuThreadExchangeStreamCaptureMode(mode.CU_STREAM_CAPTURE_MODE_RELAXED))
    assert check(d.cuThreadExchangeStreamCaptureMode(previous)) == mode.CU_STREAM_CAPTURE_MODE_RELAXED


@pytest.mark.parametrize("name", ["CUipcMemHandle", "CUipcEventHandle"])
def test_bytes_of_an_interprocess_handle_can_be_read_and_set(name: str) -> None:
    handle = getattr(d, name)()
    assert handle.reserved == bytes(64)
    handle.reserved = bytes(range(64))  # with zeros and beyond ASCII: not a text
    assert handle.reserved == bytes(range(64))
