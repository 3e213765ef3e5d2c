# SPDX-License-Identifier: Apache-2.0
"""Sharing through the driver bindings: IPC, external memory and semaphores, multicast, logical endpoints."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest
from cuda.bindings import driver as d

FD = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
INVALID = d.CUresult.CUDA_ERROR_INVALID_VALUE
UNSUPPORTED = d.CUresult.CUDA_ERROR_NOT_SUPPORTED

# The other process: opens the handles, adds one to each byte, and prints the previous values.
OTHER = """
import ctypes, sys
from cuda.bindings import driver as d
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
def change(pointer):
    data = bytearray(16)
    check(d.cuMemcpyDtoH(data, pointer, 16))
    check(d.cuMemcpyHtoD(pointer, bytes(x + 1 for x in data), 16))
    check(d.cuCtxSynchronize())  # small copies are staged: the call may return before the memory is written
    return data[0]
def filled(cls, text):
    made = cls()
    ctypes.memmove(made.getPtr(), bytes.fromhex(text), len(text) // 2)
    return made
check(d.cuInit(0))
context = check(d.cuDevicePrimaryCtxRetain(0))
check(d.cuCtxSetCurrent(context))
memory, event, pool, pointer, chunk, size = sys.argv[1:]
fd = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
happened = check(d.cuIpcOpenEventHandle(filled(d.CUipcEventHandle, event)))
check(d.cuEventSynchronize(happened))
opened = check(d.cuIpcOpenMemHandle(filled(d.CUipcMemHandle, memory), d.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
found = [change(opened)]
check(d.cuIpcCloseMemHandle(opened))
imported = check(d.cuMemPoolImportFromShareableHandle(int(pool), fd, 0))
shared = check(d.cuMemPoolImportPointer(imported, filled(d.CUmemPoolPtrExportData, pointer)))
found.append(change(shared))
check(d.cuMemFree(shared))
handle = check(d.cuMemImportFromShareableHandle(int(chunk), fd))
address = check(d.cuMemAddressReserve(int(size), 0, 0, 0))
check(d.cuMemMap(address, int(size), 0, handle, 0))
access = d.CUmemAccessDesc()
access.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
check(d.cuMemSetAccess(address, int(size), [access], 1))
found.append(change(address))
check(d.cuMemUnmap(address, int(size)))
check(d.cuMemAddressFree(address, int(size)))
check(d.cuMemRelease(handle))
check(d.cuEventDestroy(happened))
print(*found)
"""


class Chunk:
    """Exportable physical memory, mapped."""

    def __init__(self, device: Any, check: Any) -> None:
        self.check = check
        p = d.CUmemAllocationProp()
        p.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        p.location.type, p.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, int(device)
        p.requestedHandleTypes = FD
        option = d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        self.size = check(d.cuMemGetAllocationGranularity(p, option))
        self.handle = check(d.cuMemCreate(self.size, p, 0))
        self.address = check(d.cuMemAddressReserve(self.size, 0, 0, 0))
        check(d.cuMemMap(self.address, self.size, 0, self.handle, 0))
        access = d.CUmemAccessDesc()
        access.location = p.location
        access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        check(d.cuMemSetAccess(self.address, self.size, [access], 1))
        check(d.cuMemsetD8(self.address, 30, self.size))
        check(d.cuCtxSynchronize())  # the memset is asynchronous: it must end before the memory is unmapped

    def close(self) -> None:
        self.check(d.cuMemUnmap(self.address, self.size))
        self.check(d.cuMemAddressFree(self.address, self.size))
        self.check(d.cuMemRelease(self.handle))


@pytest.fixture
def chunk(device: Any, context: Any, check: Any) -> Any:
    made = Chunk(device, check)
    yield made
    made.close()


def raw(record: Any) -> str:
    return ctypes.string_at(record.getPtr(), 64).hex()


def test_other_process_opens_memory_events_and_pools(
    device: Any, memory: Any, stream: Any, chunk: Any, check: Any
) -> None:
    check(d.cuMemsetD8(memory, 10, 16))
    event = check(d.cuEventCreate(d.CUevent_flags.CU_EVENT_INTERPROCESS | d.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    check(d.cuEventRecord(event, stream))
    props = d.CUmemPoolProps()
    props.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location.type, props.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, int(device)
    props.handleTypes = FD
    pool = check(d.cuMemPoolCreate(props))
    pool_fd = check(d.cuMemPoolExportToShareableHandle(pool, FD, 0))
    pointer = check(d.cuMemAllocFromPoolAsync(4096, pool, stream))
    check(d.cuMemsetD8Async(pointer, 20, 16, stream))
    check(d.cuStreamSynchronize(stream))
    chunk_fd = check(d.cuMemExportToShareableHandle(chunk.handle, FD, 0))
    arguments = [raw(check(d.cuIpcGetMemHandle(memory))), raw(check(d.cuIpcGetEventHandle(event))), str(pool_fd),
                 raw(check(d.cuMemPoolExportPointer(pointer))), str(chunk_fd), str(chunk.size)]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", OTHER, *arguments], capture_output=True, text=True, check=False,
                          pass_fds=[pool_fd, chunk_fd])  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10", "20", "30"]
    back = bytearray(16)
    for place, value in ((memory, 11), (pointer, 21), (chunk.address, 31)):
        check(d.cuMemcpyDtoH(back, place, 16))
        assert back == bytes([value]) * 16
    os.close(pool_fd)
    os.close(chunk_fd)
    check(d.cuMemFreeAsync(pointer, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuMemPoolDestroy(pool))
    check(d.cuEventDestroy(event))


def test_dma_buf_is_exported_if_supported(device: Any, chunk: Any, check: Any) -> None:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
    kind = d.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
    code, fd = d.cuMemGetHandleForAddressRange(chunk.address, chunk.size, kind, 0)
    if not check(d.cuDeviceGetAttribute(can, device)):
        assert code == UNSUPPORTED and fd is None
        return
    assert code == 0 and fd > 2
    os.close(fd)


# ---- external memory and semaphores


def external(fd: int, size: int) -> Any:
    wanted = d.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
    wanted.type = d.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
    wanted.handle.fd, wanted.size = fd, size
    return wanted


def test_external_memory_is_mapped_as_a_buffer(chunk: Any, check: Any) -> None:
    fd = check(d.cuMemExportToShareableHandle(chunk.handle, FD, 0))
    code, outside = d.cuImportExternalMemory(external(fd, chunk.size))
    if code != 0:
        os.close(fd)
        pytest.skip(f"a descriptor of this driver's own memory is none of external memory: {code!r}")
    part = d.CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
    part.offset, part.size = 4096, 64
    buffer = check(d.cuExternalMemoryGetMappedBuffer(outside, part))
    check(d.cuMemsetD8(buffer, 9, 64))
    back = bytearray(65)
    check(d.cuMemcpyDtoH(back, int(chunk.address) + 4096, 65))
    assert back == bytes([9]) * 64 + bytes([30])
    check(d.cuMemFree(buffer))
    check(d.cuDestroyExternalMemory(outside))


@pytest.mark.cpu_only
def test_external_memory_is_mapped_as_a_mipmapped_array(context: Any, check: Any) -> None:
    fd = os.memfd_create("picture")
    os.ftruncate(fd, 1 << 20)
    kept = os.dup(fd)  # the import takes ownership of the descriptor
    outside = check(d.cuImportExternalMemory(external(fd, 1 << 20)))
    wanted = d.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC()
    wanted.arrayDesc.Width = wanted.arrayDesc.Height = 64
    wanted.arrayDesc.Format, wanted.arrayDesc.NumChannels = d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8, 1
    wanted.numLevels = 3
    mipmap = check(d.cuExternalMemoryGetMappedMipmappedArray(outside, wanted))
    copy = d.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_HOST, d.CUmemorytype.CU_MEMORYTYPE_ARRAY
    copy.srcHost = (ctypes.c_char * 4)(*b"abcd")
    copy.dstArray = check(d.cuMipmappedArrayGetLevel(mipmap, 0))
    copy.WidthInBytes, copy.Height = 4, 1
    check(d.cuMemcpy2D(copy))
    assert os.pread(kept, 4, 0) == b"abcd"
    os.close(kept)
    check(d.cuMipmappedArrayDestroy(mipmap))
    check(d.cuDestroyExternalMemory(outside))


@pytest.fixture
def timeline(context: Any, check: Any, timeline_file: Any) -> Any:
    """A timeline semaphore and its memory."""
    fd, page = timeline_file
    wanted = d.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC()
    wanted.type = d.CUexternalSemaphoreHandleType.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
    wanted.handle.fd = fd
    semaphore = check(d.cuImportExternalSemaphore(wanted))
    yield semaphore, page
    check(d.cuDestroyExternalSemaphore(semaphore))


@pytest.mark.cpu_only
def test_streams_signal_and_wait_for_external_semaphores(timeline: Any, stream: Any, check: Any, fence: Any) -> None:
    semaphore, page = timeline
    check(d.cuWaitExternalSemaphoresAsync([semaphore], [fence(d.CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, 3)], 1, stream))
    check(
        d.cuSignalExternalSemaphoresAsync([semaphore], [fence(d.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, 4)], 1, stream)
    )
    assert d.cuStreamQuery(stream)[0] == d.CUresult.CUDA_ERROR_NOT_READY
    page[:8] = (3).to_bytes(8, "little")
    check(d.cuStreamSynchronize(stream))
    assert int.from_bytes(page[:8], "little") == 4


@pytest.mark.cpu_only
def test_external_semaphore_nodes_return_and_change_their_parameters(
    timeline: Any, stream: Any, check: Any, fence: Any
) -> None:
    semaphore, page = timeline
    waits, signals = d.CUDA_EXT_SEM_WAIT_NODE_PARAMS(), d.CUDA_EXT_SEM_SIGNAL_NODE_PARAMS()
    for params, cls, value in (
        (waits, d.CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, 0),
        (signals, d.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, 6),
    ):
        params.extSemArray, params.paramsArray, params.numExtSems = [semaphore], [fence(cls, value)], 1
    graph = check(d.cuGraphCreate(0))
    first = check(d.cuGraphAddExternalSemaphoresWaitNode(graph, None, 0, waits))
    second = check(d.cuGraphAddExternalSemaphoresSignalNode(graph, [first], 1, signals))
    assert check(d.cuGraphExternalSemaphoresWaitNodeGetParams(first)).paramsArray[0].params.fence.value == 0
    read = check(d.cuGraphExternalSemaphoresSignalNodeGetParams(second))
    assert read.numExtSems == 1 and read.paramsArray[0].params.fence.value == 6
    assert int(read.extSemArray[0]) == int(semaphore)
    executable = check(d.cuGraphInstantiate(graph, 0))
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert page[0] == 6
    signals.paramsArray = [fence(d.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, 9)]
    check(d.cuGraphExecExternalSemaphoresSignalNodeSetParams(executable, second, signals))
    check(d.cuGraphExecExternalSemaphoresWaitNodeSetParams(executable, first, waits))
    check(d.cuGraphLaunch(executable, stream))
    check(d.cuStreamSynchronize(stream))
    assert page[0] == 9
    check(d.cuGraphExternalSemaphoresSignalNodeSetParams(second, signals))
    check(d.cuGraphExternalSemaphoresWaitNodeSetParams(first, waits))
    assert check(d.cuGraphExternalSemaphoresSignalNodeGetParams(second)).paramsArray[0].params.fence.value == 9
    check(d.cuGraphExecDestroy(executable))
    check(d.cuGraphDestroy(graph))


def test_invalid_file_descriptor_returns_an_error(context: Any) -> None:
    assert d.cuImportExternalMemory(external(-1, 4096))[0] != 0
    wanted = d.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC()
    wanted.type = d.CUexternalSemaphoreHandleType.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
    wanted.handle.fd = -1
    assert d.cuImportExternalSemaphore(wanted)[0] != 0


# ---- several devices


MULTICAST = """
from cuda.bindings import driver as d
import ctypes
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
check(d.cuInit(0))
version = check(d.cuDriverGetVersion())
attribute = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
if check(d.cuDeviceGetCount()) < 2 or not all(check(d.cuDeviceGetAttribute(attribute, i)) for i in (0, 1)):
    print("skip")
    raise SystemExit
for i in (1, 0):
    check(d.cuCtxSetCurrent(check(d.cuDevicePrimaryCtxRetain(i))))
wanted = d.CUmulticastObjectProp()
wanted.numDevices = 2
size = check(d.cuMulticastGetGranularity(wanted, d.CUmulticastGranularity_flags.CU_MULTICAST_GRANULARITY_RECOMMENDED))
wanted.size = size
multicast = check(d.cuMulticastCreate(wanted))
for i in (0, 1):
    check(d.cuMulticastAddDevice(multicast, i))
def place(device):
    p = d.CUmemAllocationProp()
    p.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    p.location.type, p.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
    return p
def mapped(handle, device):
    address = check(d.cuMemAddressReserve(size, 0, 0, 0))
    check(d.cuMemMap(address, size, 0, handle, 0))
    access = d.CUmemAccessDesc()
    access.location = place(device).location
    access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(d.cuMemSetAccess(address, size, [access], 1))
    return address
handles = [check(d.cuMemCreate(size, place(i), 0)) for i in (0, 1)]
first, second = [mapped(handle, i) for i, handle in enumerate(handles)]
assert d.cuMulticastBindMem(multicast, 1, handles[0], 0, size, 0)[0] != 0
check(d.cuMulticastBindMem(multicast, 0, handles[0], 0, size, 0))
check(d.cuMulticastBindAddr(multicast, 0, second, size, 0))
check(d.cuMulticastUnbind(multicast, 1, 0, size))
if version >= 13010:
    check(d.cuMulticastBindAddr_v2(multicast, 1, 0, second, size, 0))
    check(d.cuMulticastUnbind(multicast, 1, 0, size))
    check(d.cuMulticastBindMem_v2(multicast, 1, 0, handles[1], 0, size, 0))
else:
    check(d.cuMulticastBindMem(multicast, 0, handles[1], 0, size, 0))
check(d.cuMemRelease(multicast))
print("bound")
"""


def test_multicast_objects_bind_memory_of_several_devices(context: Any, since: Any) -> None:
    since(12010)
    environment = {**os.environ, "CUCORE_CPU_DEVICES": "2"}
    done = subprocess.run(
        [sys.executable, "-c", MULTICAST], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.strip() == "skip":
        pytest.skip("no two devices with multicast")
    assert done.stdout.strip() == "bound"


def test_logical_endpoints_work_if_supported(device: Any, context: Any, chunk: Any, since: Any, check: Any) -> None:
    since(13030)
    wanted = d.CUlogicalEndpointProp()
    code, alignment, size = d.cuLogicalEndpointGetLimits(wanted)
    if code == UNSUPPORTED:
        kind = d.CUlogicalEndpointIpcHandleType(0)
        calls = [
            d.cuLogicalEndpointIdReserve(1), d.cuLogicalEndpointIdRelease(1, 1), d.cuLogicalEndpointCreate(1, wanted),
            d.cuLogicalEndpointAddDevice(1, device), d.cuLogicalEndpointBindMem(1, device, 0, chunk.handle, 0, 4096, 0),
            d.cuLogicalEndpointBindAddr(1, device, 0, chunk.address, 4096, 0), d.cuLogicalEndpointQuery(1, 1),
            d.cuLogicalEndpointUnbind(1, device, 0, 4096), d.cuLogicalEndpointExport(1, kind),
            d.cuLogicalEndpointImport(1, 0, kind), d.cuLogicalEndpointDestroy(1),
        ]  # fmt: skip
        assert [call[0] for call in calls] == [UNSUPPORTED] * len(calls)
        return
    assert code == INVALID or (code == 0 and 0 < alignment <= size)
