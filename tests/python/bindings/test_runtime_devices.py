# SPDX-License-Identifier: Apache-2.0
"""Devices, execution contexts, streams, captures and code through the runtime bindings."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import runtime as r

SM = r.cudaDevResourceType.cudaDevResourceTypeSm
RELAXED = r.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
SOURCE = rb"""
__managed__ int shared_count = 3;
extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n); }
extern "C" __global__ void mixed(double a, char b, int* p) { *p = a + b; }
"""


@pytest.fixture(autouse=True)
def started(check: Any) -> Any:
    check(r.cudaSetDevice(0))
    yield
    check(r.cudaDeviceSynchronize())
    r.cudaGetLastError()


@pytest.fixture
def stream(check: Any) -> Any:
    made = check(r.cudaStreamCreateWithFlags(r.cudaStreamNonBlocking))
    yield made
    check(r.cudaStreamDestroy(made))


@pytest.fixture
def ptx(compile_ptx: Any) -> bytes:
    return compile_ptx(SOURCE)


@pytest.fixture
def library(ptx: bytes, check: Any) -> Any:
    made = check(r.cudaLibraryLoadData(ptx, [], [], 0, [], [], 0))
    yield made
    check(r.cudaLibraryUnload(made))


# ---- devices


def test_device_settings_are_returned(check: Any) -> None:
    check(r.cudaDeviceSetCacheConfig(r.cudaFuncCache.cudaFuncCachePreferShared))
    assert isinstance(check(r.cudaDeviceGetCacheConfig()), r.cudaFuncCache)
    check(r.cudaDeviceSetSharedMemConfig(r.cudaSharedMemConfig.cudaSharedMemBankSizeFourByte))
    assert check(r.cudaDeviceGetSharedMemConfig()) == r.cudaSharedMemConfig.cudaSharedMemBankSizeFourByte
    check(r.cudaSetDeviceFlags(r.cudaDeviceScheduleBlockingSync))
    assert check(r.cudaGetDeviceFlags()) & r.cudaDeviceScheduleMask == r.cudaDeviceScheduleBlockingSync
    check(r.cudaSetDeviceFlags(r.cudaDeviceScheduleAuto))
    check(r.cudaCtxResetPersistingL2Cache())
    pool = check(r.cudaDeviceGetMemPool(0))
    check(r.cudaDeviceSetMemPool(0, pool))
    high = r.cudaGraphMemAttributeType.cudaGraphMemAttrUsedMemHigh
    check(r.cudaDeviceSetGraphMemAttribute(0, high, 0))
    assert int(check(r.cudaDeviceGetGraphMemAttribute(0, high))) >= 0
    form = check(r.cudaCreateChannelDesc(32, 0, 0, 0, r.cudaChannelFormatKind.cudaChannelFormatKindFloat))
    assert check(r.cudaDeviceGetTexture1DLinearMaxWidth(form, 0)) > 1000
    target = r.cudaFlushGPUDirectRDMAWritesTarget.cudaFlushGPUDirectRDMAWritesTargetCurrentDevice
    scope = r.cudaFlushGPUDirectRDMAWritesScope.cudaFlushGPUDirectRDMAWritesToOwner
    assert r.cudaDeviceFlushGPUDirectRDMAWrites(target, scope)[0] in (0, r.cudaError_t.cudaErrorNotSupported)


def test_peer_and_atomic_capabilities_are_returned(since: Any, check: Any) -> None:
    rank = r.cudaDeviceP2PAttr.cudaDevP2PAttrPerformanceRank
    if check(r.cudaGetDeviceCount()) == 1:
        invalid = r.cudaError_t.cudaErrorInvalidDevice
        assert r.cudaDeviceCanAccessPeer(0, 1)[0] == r.cudaDeviceGetP2PAttribute(rank, 0, 1)[0] == invalid
        assert r.cudaDeviceEnablePeerAccess(1, 0)[0] == r.cudaDeviceDisablePeerAccess(1)[0] == invalid
    else:
        assert check(r.cudaDeviceCanAccessPeer(0, 1)) in (0, 1) and check(r.cudaDeviceGetP2PAttribute(rank, 0, 1)) >= 0
    since(13000)
    operations = [r.cudaAtomicOperation.cudaAtomicOperationIntegerAdd, r.cudaAtomicOperation.cudaAtomicOperationCAS]
    assert len(check(r.cudaDeviceGetHostAtomicCapabilities(operations, 2, 0))) == 2
    assert r.cudaDeviceGetP2PAtomicCapabilities(operations, 2, 0, 99)[0] != 0


RESET = """
from cuda.bindings import driver as d, runtime as r
assert r.cudaMalloc(16)[0] == 0 and d.cuDevicePrimaryCtxGetState(0)[2] == 1
assert r.cudaDeviceReset()[0] == 0
assert d.cuDevicePrimaryCtxGetState(0)[2] == 0
assert r.cudaMalloc(16)[0] == 0 and d.cuDevicePrimaryCtxGetState(0)[2] == 1  # a new context is made on demand
assert d.cuDevicePrimaryCtxReset(0)[0] == 0
assert d.cuDevicePrimaryCtxGetState(0)[2] == 0
"""


def test_device_reset_frees_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", RESET], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_async_notification_callback_is_freed_with_its_registration(check: Any) -> None:
    def told(info: Any, data: Any, registration: Any) -> None:
        raise AssertionError("no pool is over its budget")

    code, registration = r.cudaDeviceRegisterAsyncNotification(0, told, "data")
    if code == r.cudaError_t.cudaErrorNotSupported:
        pytest.skip("no notifications")
    gone = weakref.ref(told)
    del told
    assert code == 0 and gone() is not None
    check(r.cudaDeviceUnregisterAsyncNotification(0, registration))
    assert gone() is None


def test_execution_context_has_resources_streams_and_events(since: Any, check: Any) -> None:
    since(13010)
    whole = check(r.cudaDeviceGetDevResource(0, SM))
    groups, count, rest = check(r.cudaDevSmResourceSplitByCount(1, whole, 0, 1))
    assert count == 1 and groups[0].sm.smCount + rest.sm.smCount <= whole.sm.smCount
    wanted = r.cudaDevSmResourceGroupParams()
    wanted.smCount = groups[0].sm.smCount
    same, _ = check(r.cudaDevSmResourceSplit(1, whole, 0, [wanted]))
    assert same[0].sm.smCount >= wanted.smCount
    context = check(r.cudaGreenCtxCreate(check(r.cudaDevResourceGenerateDesc([groups[0]], 1)), 0, 0))
    assert check(r.cudaExecutionCtxGetDevice(context)) == 0
    assert check(r.cudaExecutionCtxGetDevResource(context, SM)).sm.smCount == groups[0].sm.smCount
    assert check(r.cudaExecutionCtxGetId(context)) != check(
        r.cudaExecutionCtxGetId(check(r.cudaDeviceGetExecutionCtx(0)))
    )
    stream = check(r.cudaExecutionCtxStreamCreate(context, r.cudaStreamNonBlocking, 0))
    assert check(r.cudaStreamGetDevResource(stream, SM)).sm.smCount == groups[0].sm.smCount
    event, primary = check(r.cudaEventCreate()), check(r.cudaDeviceGetExecutionCtx(0))
    check(r.cudaExecutionCtxRecordEvent(primary, event))
    check(r.cudaExecutionCtxWaitEvent(primary, event))
    check(r.cudaExecutionCtxSynchronize(primary))
    assert r.cudaEventQuery(event) == (0,)
    check(r.cudaExecutionCtxSynchronize(context))
    check(r.cudaEventDestroy(event))
    check(r.cudaStreamDestroy(stream))
    check(r.cudaExecutionCtxDestroy(context))


# ---- streams


def test_stream_attributes_are_returned_and_callbacks_run(stream: Any, since: Any, check: Any) -> None:
    value = r.cudaStreamAttrValue()
    value.syncPolicy = r.cudaSynchronizationPolicy.cudaSyncPolicyBlockingSync
    policy = r.cudaStreamAttrID.cudaLaunchAttributeSynchronizationPolicy
    check(r.cudaStreamSetAttribute(stream, policy, value))
    other = check(r.cudaStreamCreateWithFlags(r.cudaStreamNonBlocking))
    check(r.cudaStreamCopyAttributes(other, stream))
    for handle in (stream, other):
        assert check(r.cudaStreamGetAttribute(handle, policy)).syncPolicy == value.syncPolicy
    seen: list[Any] = []
    check(r.cudaStreamAddCallback(stream, lambda *arguments: seen.append(arguments), "data", 0))
    check(r.cudaStreamSynchronize(stream))
    assert seen == [(int(stream), 0, "data")]
    check(r.cudaStreamDestroy(other))
    since(13010)
    check(r.cudaLaunchHostFunc_v2(stream, seen.append, "more", 0))
    check(r.cudaStreamSynchronize(stream))
    assert seen[1] == "more"


def test_capture_to_an_existing_graph_adds_nodes(stream: Any, check: Any) -> None:
    memory = check(r.cudaMalloc(64))
    graph = check(r.cudaGraphCreate(0))
    first = check(r.cudaGraphAddEmptyNode(graph, None, 0))
    check(r.cudaStreamBeginCaptureToGraph(stream, graph, [first], None, 1, RELAXED))
    check(r.cudaMemsetAsync(memory, 1, 4, stream))
    status, _, same, nodes, _, count = check(r.cudaStreamGetCaptureInfo(stream))
    assert status.name.endswith("Active") and int(same) == int(graph) and count == len(nodes) == 1
    flags = r.cudaStreamUpdateCaptureDependenciesFlags.cudaStreamSetCaptureDependencies
    check(r.cudaStreamUpdateCaptureDependencies(stream, [first], None, 1, flags))
    check(r.cudaMemsetAsync(memory, 2, 4, stream))
    flags = r.cudaStreamUpdateCaptureDependenciesFlags.cudaStreamAddCaptureDependencies
    check(r.cudaStreamUpdateCaptureDependencies(stream, nodes, None, 1, flags))
    assert int(check(r.cudaStreamEndCapture(stream))) == int(graph)
    assert check(r.cudaGraphGetNodes(graph, 8))[1] == 3
    assert check(r.cudaGraphNodeGetDependentNodes(first, 4))[2] == 2
    check(r.cudaGraphDestroy(graph))
    check(r.cudaFree(memory))


def test_recapture_calls_back_with_each_change(stream: Any, since: Any, check: Any) -> None:
    since(13030)
    memory = check(r.cudaMalloc(64))
    check(r.cudaStreamBeginCapture(stream, RELAXED))
    check(r.cudaMemsetAsync(memory, 3, 4, stream))
    check(r.cudaMemcpyAsync(memory + 8, memory, 4, r.cudaMemcpyKind.cudaMemcpyDeviceToDevice, stream))
    graph = check(r.cudaStreamEndCapture(stream))
    seen: list[Any] = []

    def changed(data: Any, node: Any, before: Any, after: Any, status: Any) -> None:
        assert isinstance(node, r.cudaGraphNode_t) and isinstance(before, r.cudaGraphNodeParams)
        seen.append((data, before.type, after.type, status))
        if before.type == r.cudaGraphNodeType.cudaGraphNodeTypeMemset:
            seen.append((before.memset.value, after.memset.value))
        else:
            seen.append((int(before.memcpy.copyParams.dstPtr.ptr), int(after.memcpy.copyParams.dstPtr.ptr)))

    told = r.cudaGraphRecaptureCallbackData()
    told.callbackFunc, told.userData = changed, "mine"
    check(r.cudaStreamBeginRecaptureToGraph(stream, RELAXED, graph, told))
    check(r.cudaMemsetAsync(memory, 8, 4, stream))
    check(r.cudaMemcpyAsync(memory + 16, memory, 4, r.cudaMemcpyKind.cudaMemcpyDeviceToDevice, stream))
    check(r.cudaStreamEndCapture(stream))
    kind, fits = r.cudaGraphNodeType, r.cudaGraphRecaptureStatus.cudaGraphRecaptureEligibleForUpdate
    assert seen == [
        ("mine", kind.cudaGraphNodeTypeMemset, kind.cudaGraphNodeTypeMemset, fits), (3, 8),
        ("mine", kind.cudaGraphNodeTypeMemcpy, kind.cudaGraphNodeTypeMemcpy, fits), (memory + 8, memory + 16),
    ]  # fmt: skip
    gone = weakref.ref(changed)
    del changed, told
    check(r.cudaGraphDestroy(graph))
    for _ in range(1000):
        if gone() is None:
            break
        check(r.cudaDeviceSynchronize())
    assert gone() is None
    check(r.cudaStreamBeginRecaptureToGraph(stream, RELAXED, check(r.cudaGraphCreate(0)), None))
    check(r.cudaStreamEndCapture(stream))  # empty graph without a callback
    check(r.cudaFree(memory))


def test_managed_memory_is_attached_to_a_stream(stream: Any, check: Any) -> None:
    memory = check(r.cudaMallocManaged(4096, r.cudaMemAttachHost))
    check(r.cudaStreamAttachMemAsync(stream, memory, 0, r.cudaMemAttachSingle))
    check(r.cudaMemsetAsync(memory, 6, 4, stream))
    check(r.cudaStreamSynchronize(stream))
    assert ctypes.string_at(int(memory), 4) == b"\6\6\6\6"
    check(r.cudaFree(memory))


# ---- code


def test_library_from_a_file_has_its_variables(ptx: bytes, check: Any, tmp_path: Path) -> None:
    file = tmp_path / "code.ptx"
    file.write_bytes(ptx.rstrip(b"\0"))
    library = check(r.cudaLibraryLoadFromFile(str(file).encode(), [], [], 0, [], [], 0))
    pointer, size = check(r.cudaLibraryGetManaged(library, b"shared_count"))
    assert size == 4 and ctypes.c_int.from_address(int(pointer)).value == 3
    assert r.cudaLibraryGetUnifiedFunction(library, b"none")[0] != 0
    check(r.cudaLibraryUnload(library))


def test_kernel_has_name_parameters_and_attributes(library: Any, since: Any, check: Any) -> None:
    kernel = check(r.cudaLibraryGetKernel(library, b"mixed"))
    assert check(r.cudaFuncGetName(kernel)) == b"mixed"
    assert [check(r.cudaFuncGetParamInfo(kernel, i)) for i in range(3)] == [(0, 8), (8, 1), (16, 8)]
    check(r.cudaFuncSetCacheConfig(kernel, r.cudaFuncCache.cudaFuncCachePreferL1))
    check(r.cudaFuncSetSharedMemConfig(kernel, r.cudaSharedMemConfig.cudaSharedMemBankSizeDefault))
    shared = r.cudaFuncAttribute.cudaFuncAttributeMaxDynamicSharedMemorySize
    check(r.cudaKernelSetAttributeForDevice(kernel, shared, 2048, 0))
    assert check(r.cudaFuncGetAttributes(kernel)).maxDynamicSharedSizeBytes == 2048
    assert int(check(r.cudaGetFuncBySymbol(kernel))) != 0
    assert int(check(r.cudaGetKernel(kernel))) == int(kernel)
    since(13020)
    assert check(r.cudaFuncGetParamCount(kernel)) == 3


def test_occupancy_with_flags_and_clusters_returns_launchable_sizes(library: Any, check: Any) -> None:
    kernel = check(r.cudaLibraryGetKernel(library, b"add"))
    plain = check(r.cudaOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 64, 0))
    assert check(r.cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(kernel, 64, 0, 0)) == plain
    if not check(r.cudaDeviceGetAttribute(r.cudaDeviceAttr.cudaDevAttrClusterLaunch, 0)):
        pytest.skip("no clusters")
    cluster = r.cudaLaunchAttribute()
    cluster.id = r.cudaLaunchAttributeID.cudaLaunchAttributeClusterDimension
    cluster.val.clusterDim.x, cluster.val.clusterDim.y, cluster.val.clusterDim.z = 2, 1, 1
    config = r.cudaLaunchConfig_t()
    config.gridDim.x, config.gridDim.y, config.gridDim.z = 4, 1, 1
    config.blockDim.x, config.blockDim.y, config.blockDim.z = 64, 1, 1
    config.attrs, config.numAttrs = [cluster], 1
    assert check(r.cudaOccupancyMaxActiveClusters(kernel, config)) >= 1
    assert check(r.cudaOccupancyMaxPotentialClusterSize(kernel, config)) >= 2


def test_cooperative_launch_runs(library: Any, stream: Any, check: Any) -> None:
    kernel = check(r.cudaLibraryGetKernel(library, b"add"))
    memory = check(r.cudaMalloc(4))
    check(r.cudaMemset(memory, 0, 4))
    one = r.dim3()
    one.x = one.y = one.z = 1
    arguments = ((memory, 7), (ctypes.c_void_p, ctypes.c_int))
    check(r.cudaLaunchCooperativeKernel(kernel, one, one, arguments, 0, stream))
    config = r.cudaLaunchConfig_t()
    config.gridDim, config.blockDim, config.stream = one, one, stream
    check(r.cudaLaunchKernelExC(config, kernel, arguments))
    check(r.cudaStreamSynchronize(stream))
    back = ctypes.c_int()
    check(r.cudaMemcpy(back, memory, 4, r.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert back.value == 14
    check(r.cudaFree(memory))


def test_host_variable_returns_invalid_symbol(stream: Any, check: Any) -> None:
    unknown = r.cudaError_t.cudaErrorInvalidSymbol
    kind = r.cudaMemcpyKind.cudaMemcpyHostToDevice
    here, there = bytearray(4), ctypes.create_string_buffer(4)
    symbol = ctypes.addressof(there)
    graph = check(r.cudaGraphCreate(0))
    node = check(r.cudaGraphAddEmptyNode(graph, None, 0))
    executable = check(r.cudaGraphInstantiate(graph, 0))
    back = r.cudaMemcpyKind.cudaMemcpyDeviceToHost
    calls = [
        r.cudaGetSymbolAddress(symbol), r.cudaGetSymbolSize(symbol), r.cudaMemcpyToSymbol(symbol, here, 4, 0, kind),
        r.cudaMemcpyToSymbolAsync(symbol, here, 4, 0, kind, stream), r.cudaMemcpyFromSymbol(here, symbol, 4, 0, back),
        r.cudaMemcpyFromSymbolAsync(here, symbol, 4, 0, back, stream),
        r.cudaGraphAddMemcpyNodeToSymbol(graph, None, 0, symbol, here, 4, 0, kind),
        r.cudaGraphAddMemcpyNodeFromSymbol(graph, None, 0, here, symbol, 4, 0, back),
        r.cudaGraphMemcpyNodeSetParamsToSymbol(node, symbol, here, 4, 0, kind),
        r.cudaGraphMemcpyNodeSetParamsFromSymbol(node, here, symbol, 4, 0, back),
        r.cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, node, symbol, here, 4, 0, kind),
        r.cudaGraphExecMemcpyNodeSetParamsFromSymbol(executable, node, here, symbol, 4, 0, back),
    ]  # fmt: skip
    assert [call[0] for call in calls] == [unknown] * len(calls)
    check(r.cudaGraphExecDestroy(executable))
    check(r.cudaGraphDestroy(graph))


def test_entry_points_and_versions_are_queried(check: Any) -> None:
    address, status = check(r.cudaGetDriverEntryPointByVersion(b"cuInit", 12000, 0))
    assert address and status == r.cudaDriverEntryPointQueryResult.cudaDriverEntryPointSuccess
    assert check(r.getLocalRuntimeVersion()) >= 12000
    assert r.cudaGetExportTable(r.cudaUUID_t())[0] != 0


def test_logs_are_dumped_and_reported_to_a_callback(since: Any, check: Any, tmp_path: Path) -> None:
    since(12090)
    seen: list[Any] = []
    registration = check(r.cudaLogsRegisterCallback(lambda *arguments: seen.append(arguments), "mine"))
    start = check(r.cudaLogsCurrent(0))
    code, library = r.cudaLibraryLoadData(b"this is no module at all\0", [], [], 0, [], [], 0)
    if code == 0:  # a driver may validate it later
        check(r.cudaLibraryUnload(library))
    text = bytearray(4096)
    check(r.cudaLogsDumpToMemory(start, text, len(text), 0))
    check(r.cudaLogsDumpToFile(None, str(tmp_path / "log").encode(), 0))
    check(r.cudaLogsUnregisterCallback(registration))
    assert bool(seen) == bool(text.rstrip(b"\0")) and all(data == "mine" for data, *_ in seen)
