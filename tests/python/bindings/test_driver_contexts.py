# SPDX-License-Identifier: Apache-2.0
"""Devices, contexts, peers and device resources through the driver bindings; complements test_driver_functions."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest
from cuda.bindings import driver as d

SM = d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM


@pytest.fixture
def own(device: Any, check: Any) -> Any:
    """A new context that is current during the test."""
    made = check(d.cuCtxCreate(None, 0, device))
    yield made
    check(d.cuCtxSetCurrent(made))
    check(d.cuCtxDestroy(made))


def test_context_returns_its_settings(own: Any, check: Any) -> None:
    check(d.cuCtxSetCacheConfig(d.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED))
    assert isinstance(check(d.cuCtxGetCacheConfig()), d.CUfunc_cache)  # a preference: the device may ignore it
    check(d.cuCtxSetSharedMemConfig(d.CUsharedconfig.CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE))
    assert check(d.cuCtxGetSharedMemConfig()) == d.CUsharedconfig.CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE
    heap = d.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE
    wanted = 2 * check(d.cuCtxGetLimit(heap))
    check(d.cuCtxSetLimit(heap, wanted))
    assert check(d.cuCtxGetLimit(heap)) >= wanted
    check(d.cuCtxSetFlags(d.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC))
    assert check(d.cuCtxGetFlags()) & d.CUctx_flags.CU_CTX_SCHED_MASK == d.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC
    check(d.cuCtxResetPersistingL2Cache())


def test_context_that_is_not_current_can_be_queried(own: Any, device: Any, check: Any) -> None:
    check(d.cuCtxPopCurrent())
    assert int(check(d.cuCtxGetCurrent())) != int(own)
    if check(d.cuDriverGetVersion()) >= 13000:
        assert int(check(d.cuCtxGetDevice_v2(own))) == int(device)
        check(d.cuCtxSynchronize_v2(own))
    assert check(d.cuCtxGetDevResource(own, SM)).sm.smCount >= 1
    check(d.cuCtxPushCurrent(own))


def test_attached_context_is_reference_counted(own: Any, check: Any) -> None:
    code, same = d.cuCtxAttach(0)
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("this driver no longer counts users of a context")
    assert code == 0 and int(same) == int(own)
    check(d.cuCtxDetach(same))
    assert int(check(d.cuCtxGetCurrent())) == int(own)


def test_execution_affinity_requires_device_support(own: Any, device: Any, check: Any) -> None:
    kind = d.CUexecAffinityType.CU_EXEC_AFFINITY_TYPE_SM_COUNT
    code, affinity = d.cuCtxGetExecAffinity(kind)
    if code == 0:
        assert affinity.type == kind and affinity.param.smCount.val >= 1
    else:
        assert not check(d.cuDeviceGetExecAffinitySupport(kind, device))
        assert code == d.CUresult.CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY and affinity is None


def test_primary_context_returns_its_flags(device: Any, context: Any, check: Any) -> None:
    before, _ = check(d.cuDevicePrimaryCtxGetState(device))
    spin = int(d.CUctx_flags.CU_CTX_SCHED_SPIN)
    check(d.cuDevicePrimaryCtxSetFlags(device, spin))
    assert check(d.cuDevicePrimaryCtxGetState(device))[0] & int(d.CUctx_flags.CU_CTX_SCHED_MASK) == spin
    check(d.cuDevicePrimaryCtxSetFlags(device, before & int(d.CUctx_flags.CU_CTX_SCHED_MASK)))


def test_device_properties_equal_device_attributes(device: Any, context: Any, check: Any) -> None:
    properties = check(d.cuDeviceGetProperties(device))
    attribute = d.CUdevice_attribute
    assert properties.SIMDWidth == check(d.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, device))
    threads = check(d.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device))
    assert properties.maxThreadsPerBlock == threads and properties.maxThreadsDim[0] <= threads
    code, luid, _mask = d.cuDeviceGetLuid(device)  # Windows only; elsewhere an error or zeros
    assert code != 0 or len(luid) == 8


def test_host_atomic_capabilities_have_one_entry_per_operation(
    device: Any, context: Any, since: Any, check: Any
) -> None:
    since(13000)
    operations = [d.CUatomicOperation.CU_ATOMIC_OPERATION_INTEGER_ADD, d.CUatomicOperation.CU_ATOMIC_OPERATION_CAS]
    found = check(d.cuDeviceGetHostAtomicCapabilities(operations, 2, device))
    assert len(found) == 2 and all(int(capability) >= 0 for capability in found)
    with pytest.raises(ValueError, match="operations has 2 elements, but count is 3"):
        d.cuDeviceGetHostAtomicCapabilities(operations, 3, device)


def test_peer_functions_with_an_invalid_device_return_an_error(
    device: Any, context: Any, since: Any, check: Any
) -> None:
    count = check(d.cuDeviceGetCount())
    rank = d.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
    operations = [d.CUatomicOperation.CU_ATOMIC_OPERATION_INTEGER_ADD]
    if count == 1:
        assert d.cuDeviceGetP2PAttribute(rank, device, device)[0] == d.CUresult.CUDA_ERROR_INVALID_DEVICE
        assert d.cuDeviceCanAccessPeer(device, 1)[0] == d.CUresult.CUDA_ERROR_INVALID_DEVICE
        assert d.cuCtxEnablePeerAccess(None, 0)[0] != 0 and d.cuCtxDisablePeerAccess(None)[0] != 0
        since(13000)
        code, nothing = d.cuDeviceGetP2PAtomicCapabilities(operations, 1, device, 1)
        assert code in (d.CUresult.CUDA_ERROR_INVALID_DEVICE, d.CUresult.CUDA_ERROR_INVALID_VALUE) and nothing is None
        return
    reachable = check(d.cuDeviceCanAccessPeer(device, 1))
    assert reachable in (0, 1) and check(d.cuDeviceGetP2PAttribute(rank, device, 1)) >= 0
    since(13000)
    assert len(check(d.cuDeviceGetP2PAtomicCapabilities(operations, 1, device, 1))) == 1


def test_clique_query_returns_cliques_or_an_error(device: Any, context: Any, since: Any, check: Any) -> None:
    since(13040)
    count = check(d.cuDeviceGetCliqueCount(device))
    code, cliques, found = d.cuDeviceGetCliqueInfo(count, device)
    if count:
        assert code == 0 and found == count and all(isinstance(c.type, d.CUcliqueType) for c in cliques)
    else:
        assert code == d.CUresult.CUDA_ERROR_INVALID_VALUE and cliques is None
    code, uuid = d.cuDeviceGetFabricClusterUuid(device)
    assert code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED or len(uuid.bytes) == 16


def test_async_notification_callback_is_freed_with_its_registration(device: Any, context: Any, check: Any) -> None:
    def told(info: Any, data: Any, registration: Any) -> None:
        raise AssertionError("no pool is over its budget")

    code, registration = d.cuDeviceRegisterAsyncNotification(device, told, "data")
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("no notifications")
    assert code == 0 and int(registration)
    gone = weakref.ref(told)
    del told
    assert gone() is not None
    check(d.cuDeviceUnregisterAsyncNotification(device, registration))
    assert gone() is None
    assert d.cuDeviceUnregisterAsyncNotification(device, None)[0] != 0


def test_high_watermark_of_graph_memory_is_reset(device: Any, context: Any, check: Any) -> None:
    high = d.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
    check(d.cuDeviceSetGraphMemAttribute(device, high, d.cuuint64_t(0)))
    assert int(check(d.cuDeviceGetGraphMemAttribute(device, high))) >= 0
    current = d.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
    assert d.cuDeviceSetGraphMemAttribute(device, current, d.cuuint64_t(0))[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE


def test_gpudirect_rdma_writes_are_flushed_if_supported(device: Any, context: Any, check: Any) -> None:
    options = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
    can = check(d.cuDeviceGetAttribute(options, device)) & int(
        d.CUflushGPUDirectRDMAWritesOptions.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
    )
    code = d.cuFlushGPUDirectRDMAWrites(
        d.CUflushGPUDirectRDMAWritesTarget.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
        d.CUflushGPUDirectRDMAWritesScope.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER,
    )[0]
    assert code == 0 or (not can and code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED)


def test_multiprocessors_are_split_into_groups(device: Any, context: Any, since: Any, check: Any) -> None:
    since(13010)
    whole = check(d.cuDeviceGetDevResource(device, SM))
    wanted = d.CU_DEV_SM_RESOURCE_GROUP_PARAMS()
    wanted.smCount = max(whole.sm.minSmPartitionSize, 1)
    groups, rest = check(d.cuDevSmResourceSplit(1, whole, 0, [wanted]))
    assert len(groups) == 1 and groups[0].sm.smCount >= wanted.smCount
    assert groups[0].sm.smCount + rest.sm.smCount <= whole.sm.smCount
    green = check(
        d.cuGreenCtxCreate(
            check(d.cuDevResourceGenerateDesc([groups[0]], 1)),
            device,
            d.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM,
        )
    )
    stream = check(d.cuGreenCtxStreamCreate(green, d.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
    assert check(d.cuStreamGetDevResource(stream, SM)).sm.smCount == groups[0].sm.smCount
    assert check(d.cuGreenCtxGetId(green)) > 0
    check(d.cuStreamDestroy(stream))
    check(d.cuGreenCtxDestroy(green))


def test_current_context_is_per_thread(own: Any, check: Any) -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(int(check(d.cuCtxGetCurrent())))
        check(d.cuCtxSetCurrent(own))
        seen.append(int(check(d.cuCtxGetCurrent())))
        check(d.cuCtxSetCurrent(0))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [0, int(own)]
