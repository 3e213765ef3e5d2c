# SPDX-License-Identifier: Apache-2.0
"""Copies, ranges, pools, sharing, arrays and textures through the runtime bindings."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from typing import Any

import pytest
from cuda.bindings import runtime as r

TO, BACK, WITHIN = (
    r.cudaMemcpyKind.cudaMemcpyHostToDevice,
    r.cudaMemcpyKind.cudaMemcpyDeviceToHost,
    r.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
)
FD = r.cudaMemAllocationHandleType.cudaMemHandleTypePosixFileDescriptor
PINNED = r.cudaMemAllocationType.cudaMemAllocationTypePinned
SIZE = 4 << 20


@pytest.fixture(autouse=True)
def started(check: Any) -> Any:
    check(r.cudaSetDevice(0))
    yield
    check(r.cudaDeviceSynchronize())
    r.cudaGetLastError()


@pytest.fixture
def memory(check: Any) -> Any:
    made = check(r.cudaMalloc(4096))
    check(r.cudaMemset(made, 0, 4096))
    check(r.cudaMemcpy(made, bytes(range(64)), 64, TO))
    yield int(made)
    check(r.cudaFree(made))


@pytest.fixture
def stream(check: Any) -> Any:
    made = check(r.cudaStreamCreate())
    yield made
    check(r.cudaStreamDestroy(made))


def read(pointer: int, n: int, check: Any) -> bytes:
    back = bytearray(n)
    check(r.cudaMemcpy(back, pointer, n, BACK))
    return bytes(back)


def place(kind: str, number: int = 0) -> Any:
    made = r.cudaMemLocation()
    made.type, made.id = getattr(r.cudaMemLocationType, f"cudaMemLocationType{kind}"), number
    return made


# ---- copies


def test_peer_and_batch_copies_preserve_bytes(memory: int, stream: Any, since: Any, check: Any) -> None:
    check(r.cudaMemcpyPeer(memory + 512, 0, memory, 0, 8))
    check(r.cudaMemcpyPeerAsync(memory + 520, 0, memory + 8, 0, 8, stream))
    check(r.cudaStreamSynchronize(stream))
    p = r.cudaMemcpy3DPeerParms()
    p.srcPtr, p.dstPtr = r.make_cudaPitchedPtr(memory + 16, 8, 8, 1), r.make_cudaPitchedPtr(memory + 528, 8, 8, 1)
    p.extent = r.make_cudaExtent(8, 1, 1)
    check(r.cudaMemcpy3DPeer(p))
    p.srcPtr, p.dstPtr = r.make_cudaPitchedPtr(memory + 24, 8, 8, 1), r.make_cudaPitchedPtr(memory + 536, 8, 8, 1)
    check(r.cudaMemcpy3DPeerAsync(p, stream))
    check(r.cudaStreamSynchronize(stream))
    assert read(memory + 512, 32, check) == bytes(range(32))
    since(13000)
    attributes = r.cudaMemcpyAttributes()
    attributes.srcAccessOrder = r.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream
    check(
        r.cudaMemcpyBatchAsync(
            [memory + 1024, memory + 1040], [memory, memory + 32], [8, 8], 2, [attributes], [0], 1, stream
        )
    )
    check(r.cudaStreamSynchronize(stream))
    assert read(memory + 1024, 24, check) == bytes(range(8)) + bytes(8) + bytes(range(32, 40))


def operation(source: int, target: int, width: int) -> Any:
    op = r.cudaMemcpy3DBatchOp()
    for side, pointer in ((op.src, source), (op.dst, target)):
        side.type = r.cudaMemcpy3DOperandType.cudaMemcpyOperandTypePointer
        side.op.ptr.ptr = pointer
    op.extent = r.make_cudaExtent(width, 1, 1)
    op.srcAccessOrder = r.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream
    return op


def test_3d_batches_and_copies_with_attributes_preserve_bytes(memory: int, stream: Any, since: Any, check: Any) -> None:
    since(13000)
    check(
        r.cudaMemcpy3DBatchAsync(
            2, [operation(memory, memory + 512, 8), operation(memory + 8, memory + 520, 8)], 0, stream
        )
    )
    check(r.cudaStreamSynchronize(stream))
    assert read(memory + 512, 16, check) == bytes(range(16))
    since(13020)
    attributes = r.cudaMemcpyAttributes()
    attributes.srcAccessOrder = r.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream
    check(r.cudaMemcpyWithAttributesAsync(memory + 600, memory + 16, 8, attributes, stream))
    check(r.cudaMemcpy3DWithAttributesAsync(operation(memory + 24, memory + 608, 8), 0, stream))
    check(r.cudaStreamSynchronize(stream))
    assert read(memory + 600, 16, check) == bytes(range(16, 32))


def test_3d_memset_and_copy_run_in_order(stream: Any, check: Any) -> None:
    extent = r.make_cudaExtent(8, 3, 2)
    volume = check(r.cudaMalloc3D(extent))
    check(r.cudaMemset3DAsync(volume, 5, extent, stream))
    back = (ctypes.c_char * 48)()
    copy = r.cudaMemcpy3DParms()
    copy.srcPtr, copy.dstPtr = volume, r.make_cudaPitchedPtr(ctypes.addressof(back), 8, 8, 3)
    copy.extent, copy.kind = extent, BACK
    check(r.cudaMemcpy3DAsync(copy, stream))
    check(r.cudaStreamSynchronize(stream))
    assert bytes(back) == b"\5" * 48
    check(r.cudaFree(volume.ptr))


def test_host_memory_is_registered(check: Any) -> None:
    page = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    check(r.cudaHostRegister(address, 8192, r.cudaHostRegisterMapped))
    assert check(r.cudaHostGetDevicePointer(address, 0))
    assert check(r.cudaPointerGetAttributes(address)).type == r.cudaMemoryType.cudaMemoryTypeHost
    check(r.cudaHostUnregister(address))
    assert r.cudaHostUnregister(address)[0] == r.cudaError_t.cudaErrorHostMemoryNotRegistered


# ---- ranges and pools


@pytest.fixture
def managed(check: Any) -> Any:
    if not check(r.cudaDeviceGetAttribute(r.cudaDeviceAttr.cudaDevAttrConcurrentManagedAccess, 0)):
        pytest.skip("no managed memory that both sides use at a time")
    made = check(r.cudaMallocManaged(SIZE, r.cudaMemAttachGlobal))
    ctypes.memset(int(made), 1, SIZE)
    yield int(made)
    check(r.cudaDeviceSynchronize())
    check(r.cudaFree(made))


def test_memory_advice_and_prefetch_set_range_attributes(managed: int, stream: Any, since: Any, check: Any) -> None:
    since(13000)
    attribute = r.cudaMemRangeAttribute
    check(r.cudaMemAdvise(managed, SIZE, r.cudaMemoryAdvise.cudaMemAdviseSetReadMostly, place("Device")))
    assert check(r.cudaMemRangeGetAttribute(4, attribute.cudaMemRangeAttributeReadMostly, managed, SIZE)) == 1
    check(r.cudaMemAdvise(managed, SIZE, r.cudaMemoryAdvise.cudaMemAdviseUnsetReadMostly, place("Device")))
    check(r.cudaMemAdvise(managed, SIZE, r.cudaMemoryAdvise.cudaMemAdviseSetAccessedBy, place("Device")))
    assert check(r.cudaMemRangeGetAttribute(8, attribute.cudaMemRangeAttributeAccessedBy, managed, SIZE)) == [0, -2]
    last = attribute.cudaMemRangeAttributeLastPrefetchLocation
    check(r.cudaMemPrefetchAsync(managed, SIZE, place("Device"), 0, stream))
    check(r.cudaStreamSynchronize(stream))
    assert check(
        r.cudaMemRangeGetAttributes([4, 4], [last, attribute.cudaMemRangeAttributeReadMostly], 2, managed, SIZE)
    ) == [0, 0]
    check(r.cudaMemPrefetchBatchAsync([managed], [SIZE], 1, [place("Host")], [0], 1, 0, stream))
    check(r.cudaStreamSynchronize(stream))
    assert check(r.cudaMemRangeGetAttribute(4, last, managed, SIZE)) == -1
    check(r.cudaMemDiscardBatchAsync([managed], [SIZE], 1, 0, stream))
    check(r.cudaMemDiscardAndPrefetchBatchAsync([managed], [SIZE], 1, [place("Device")], [0], 1, 0, stream))
    check(r.cudaMemsetAsync(managed, 7, SIZE, stream))
    check(r.cudaStreamSynchronize(stream))
    assert ctypes.string_at(managed, 4) == b"\7\7\7\7"
    since(13040)
    where = r.cudaMemLocation()
    code = r.cudaMemGetLocationInfo(managed, SIZE, SIZE, SIZE, where)[0]
    assert code != 0 or isinstance(where.type, r.cudaMemLocationType)


def test_location_has_a_current_memory_pool(since: Any, check: Any) -> None:
    since(13000)
    here = place("Device")
    pool = check(r.cudaMemGetDefaultMemPool(here, PINNED))
    before = check(r.cudaMemGetMemPool(here, PINNED))
    check(r.cudaMemSetMemPool(here, PINNED, pool))
    assert int(check(r.cudaMemGetMemPool(here, PINNED))) == int(pool) == int(check(r.cudaDeviceGetDefaultMemPool(0)))
    check(r.cudaMemSetMemPool(here, PINNED, before))
    access = r.cudaMemAccessDesc()
    access.location, access.flags = here, r.cudaMemAccessFlags.cudaMemAccessFlagsProtReadWrite
    check(r.cudaMemPoolSetAccess(pool, [access], 1))
    assert check(r.cudaMemPoolGetAccess(pool, here)) == access.flags


# ---- IPC and external memory

OTHER = """
import ctypes, sys
from cuda.bindings import runtime as r
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
def change(pointer):
    data = bytearray(16)
    check(r.cudaMemcpy(data, pointer, 16, r.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    check(r.cudaMemcpy(pointer, bytes(x + 1 for x in data), 16, r.cudaMemcpyKind.cudaMemcpyHostToDevice))
    return data[0]
def filled(cls, text):
    made = cls()
    ctypes.memmove(made.getPtr(), bytes.fromhex(text), len(text) // 2)
    return made
memory, event, pool, pointer = sys.argv[1:]
check(r.cudaSetDevice(0))
happened = check(r.cudaIpcOpenEventHandle(filled(r.cudaIpcEventHandle_t, event)))
check(r.cudaEventSynchronize(happened))
opened = check(r.cudaIpcOpenMemHandle(filled(r.cudaIpcMemHandle_t, memory), r.cudaIpcMemLazyEnablePeerAccess))
found = [change(opened)]
check(r.cudaIpcCloseMemHandle(opened))
kind = r.cudaMemAllocationHandleType.cudaMemHandleTypePosixFileDescriptor
imported = check(r.cudaMemPoolImportFromShareableHandle(int(pool), kind, 0))
shared = check(r.cudaMemPoolImportPointer(imported, filled(r.cudaMemPoolPtrExportData, pointer)))
found.append(change(shared))
check(r.cudaFree(shared))
check(r.cudaEventDestroy(happened))
print(*found)
"""


def raw(record: Any) -> str:
    return ctypes.string_at(record.getPtr(), 64).hex()


def test_other_process_opens_memory_events_and_pools(memory: int, stream: Any, check: Any) -> None:
    check(r.cudaMemset(memory, 10, 16))
    event = check(r.cudaEventCreateWithFlags(r.cudaEventInterprocess | r.cudaEventDisableTiming))
    check(r.cudaEventRecord(event, stream))
    props = r.cudaMemPoolProps()
    props.allocType, props.location, props.handleTypes = PINNED, place("Device"), FD
    pool = check(r.cudaMemPoolCreate(props))
    fd = check(r.cudaMemPoolExportToShareableHandle(pool, FD, 0))
    pointer = check(r.cudaMallocFromPoolAsync(4096, pool, stream))
    check(r.cudaMemsetAsync(pointer, 20, 16, stream))
    check(r.cudaStreamSynchronize(stream))
    arguments = [raw(check(r.cudaIpcGetMemHandle(memory))), raw(check(r.cudaIpcGetEventHandle(event))), str(fd),
                 raw(check(r.cudaMemPoolExportPointer(pointer)))]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", OTHER, *arguments], capture_output=True, text=True, check=False, pass_fds=[fd]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10", "20"]
    assert read(memory, 16, check) == bytes([11]) * 16 and read(int(pointer), 16, check) == bytes([21]) * 16
    os.close(fd)
    check(r.cudaFreeAsync(pointer, stream))
    check(r.cudaStreamSynchronize(stream))
    check(r.cudaMemPoolDestroy(pool))
    check(r.cudaEventDestroy(event))


def external(fd: int, size: int) -> Any:
    wanted = r.cudaExternalMemoryHandleDesc()
    wanted.type = r.cudaExternalMemoryHandleType.cudaExternalMemoryHandleTypeOpaqueFd
    wanted.handle.fd, wanted.size = fd, size
    return wanted


@pytest.mark.cpu_only
def test_external_memory_is_mapped_as_a_buffer_and_a_mipmapped_array(check: Any) -> None:
    fd = os.memfd_create("outside")
    os.ftruncate(fd, 1 << 20)
    kept = os.dup(fd)
    outside = check(r.cudaImportExternalMemory(external(fd, 1 << 20)))
    part = r.cudaExternalMemoryBufferDesc()
    part.offset, part.size = 4096, 64
    buffer = check(r.cudaExternalMemoryGetMappedBuffer(outside, part))
    check(r.cudaMemset(buffer, 9, 64))
    assert os.pread(kept, 65, 4096) == b"\t" * 64 + b"\0"
    check(r.cudaFree(buffer))
    wanted = r.cudaExternalMemoryMipmappedArrayDesc()
    wanted.formatDesc = check(
        r.cudaCreateChannelDesc(8, 0, 0, 0, r.cudaChannelFormatKind.cudaChannelFormatKindUnsigned)
    )
    wanted.extent, wanted.numLevels = r.make_cudaExtent(64, 64, 0), 2
    mipmap = check(r.cudaExternalMemoryGetMappedMipmappedArray(outside, wanted))
    assert check(r.cudaArrayGetInfo(check(r.cudaGetMipmappedArrayLevel(mipmap, 1))))[1].width == 32
    check(r.cudaFreeMipmappedArray(mipmap))
    check(r.cudaDestroyExternalMemory(outside))
    os.close(kept)


@pytest.mark.cpu_only
def test_external_semaphores_work_in_streams_and_graphs(
    stream: Any, check: Any, timeline_file: Any, fence: Any
) -> None:
    fd, page = timeline_file
    wanted = r.cudaExternalSemaphoreHandleDesc()
    wanted.type = r.cudaExternalSemaphoreHandleType.cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd
    wanted.handle.fd = fd
    semaphore = check(r.cudaImportExternalSemaphore(wanted))

    wait, signal = r.cudaExternalSemaphoreWaitParams, r.cudaExternalSemaphoreSignalParams
    check(r.cudaSignalExternalSemaphoresAsync([semaphore], [fence(signal, 4)], 1, stream))
    check(r.cudaWaitExternalSemaphoresAsync([semaphore], [fence(wait, 4)], 1, stream))
    check(r.cudaStreamSynchronize(stream))
    assert page[0] == 4
    waits, signals = r.cudaExternalSemaphoreWaitNodeParams(), r.cudaExternalSemaphoreSignalNodeParams()
    for params, cls, value in ((waits, wait, 4), (signals, signal, 6)):
        params.extSemArray, params.paramsArray, params.numExtSems = [semaphore], [fence(cls, value)], 1
    graph = check(r.cudaGraphCreate(0))
    first = check(r.cudaGraphAddExternalSemaphoresWaitNode(graph, None, 0, waits))
    second = check(r.cudaGraphAddExternalSemaphoresSignalNode(graph, [first], 1, signals))
    executable = check(r.cudaGraphInstantiate(graph, 0))
    check(r.cudaGraphLaunch(executable, stream))
    check(r.cudaStreamSynchronize(stream))
    assert page[0] == 6
    signals.paramsArray = [fence(signal, 9)]
    check(r.cudaGraphExecExternalSemaphoresWaitNodeSetParams(executable, first, waits))
    check(r.cudaGraphExecExternalSemaphoresSignalNodeSetParams(executable, second, signals))
    check(r.cudaGraphLaunch(executable, stream))
    check(r.cudaStreamSynchronize(stream))
    assert page[0] == 9
    check(r.cudaGraphExternalSemaphoresWaitNodeSetParams(first, waits))
    check(r.cudaGraphExternalSemaphoresSignalNodeSetParams(second, signals))
    assert check(r.cudaGraphExternalSemaphoresWaitNodeGetParams(first)).paramsArray[0].params.fence.value == 4
    assert check(r.cudaGraphExternalSemaphoresSignalNodeGetParams(second)).paramsArray[0].params.fence.value == 9
    check(r.cudaGraphExecDestroy(executable))
    check(r.cudaGraphDestroy(graph))
    check(r.cudaDestroyExternalSemaphore(semaphore))


# ---- arrays


@pytest.fixture
def bytes_array(check: Any) -> Any:
    """bytes_array(flags): an array of 64 x 4 bytes."""
    form = check(r.cudaCreateChannelDesc(8, 0, 0, 0, r.cudaChannelFormatKind.cudaChannelFormatKindUnsigned))
    made = []

    def create(flags: int = 0) -> Any:
        made.append(check(r.cudaMallocArray(form, 64, 4, flags)))
        return made[-1]

    yield create
    for array in made:
        check(r.cudaFreeArray(array))


def test_copies_to_from_and_between_arrays_preserve_bytes(
    memory: int, stream: Any, bytes_array: Any, check: Any
) -> None:
    first, second = bytes_array(), bytes_array()
    check(r.cudaMemcpyToArray(first, 0, 0, memory, 64, WITHIN))
    check(r.cudaMemcpyToArrayAsync(first, 0, 1, memory, 64, WITHIN, stream))
    check(r.cudaMemcpy2DToArrayAsync(first, 0, 2, memory, 64, 64, 1, WITHIN, stream))
    check(r.cudaStreamSynchronize(stream))
    check(r.cudaMemcpy2DArrayToArray(second, 0, 0, first, 0, 0, 64, 3, WITHIN))
    check(r.cudaMemcpyArrayToArray(second, 0, 3, first, 0, 1, 64, WITHIN))
    check(r.cudaMemcpyFromArray(memory + 512, second, 0, 0, 64, WITHIN))
    check(r.cudaMemcpyFromArrayAsync(memory + 576, second, 0, 3, 64, WITHIN, stream))
    check(r.cudaMemcpy2DFromArrayAsync(memory + 640, 64, second, 0, 1, 64, 2, WITHIN, stream))
    check(r.cudaStreamSynchronize(stream))
    assert read(memory + 512, 256, check) == bytes(range(64)) * 4
    check(r.cudaMemcpyArrayToArray(second, 32, 0, first, 0, 0, 96, WITHIN))  # past the end of a row
    check(r.cudaMemcpyFromArray(memory + 512, second, 0, 0, 192, WITHIN))
    assert read(memory + 512, 128, check) == (bytes(range(32)) + bytes(range(64)) + bytes(range(64)))[:128]
    form = check(r.cudaGetChannelDesc(first))
    assert (form.x, form.y, form.f) == (8, 0, r.cudaChannelFormatKind.cudaChannelFormatKindUnsigned)


def test_array_memory_requirements_and_sparse_properties_are_returned(bytes_array: Any, check: Any) -> None:
    deferred = check(r.cudaDeviceGetAttribute(r.cudaDeviceAttr.cudaDevAttrDeferredMappingCudaArraySupported, 0))
    flags = r.cudaArrayDeferredMapping if deferred else 0
    assert check(r.cudaArrayGetMemoryRequirements(bytes_array(flags), 0)).size >= 256
    assert r.cudaArrayGetPlane(bytes_array(), 7)[0] != 0
    form = check(r.cudaGetChannelDesc(bytes_array()))
    mipmap = check(r.cudaMallocMipmappedArray(form, r.make_cudaExtent(64, 64, 0), 2, flags))
    assert check(r.cudaMipmappedArrayGetMemoryRequirements(mipmap, 0)).size >= 4096
    check(r.cudaFreeMipmappedArray(mipmap))
    if not check(r.cudaDeviceGetAttribute(r.cudaDeviceAttr.cudaDevAttrSparseCudaArraySupported, 0)):
        pytest.skip("no sparse arrays")
    extent = r.make_cudaExtent(1024, 1024, 0)
    array = check(r.cudaMalloc3DArray(form, extent, r.cudaArraySparse))
    tile = check(r.cudaArrayGetSparseProperties(array)).tileExtent
    assert tile.width * tile.height * tile.depth == 65536
    mipmap = check(r.cudaMallocMipmappedArray(form, extent, 2, r.cudaArraySparse))
    assert check(r.cudaMipmappedArrayGetSparseProperties(mipmap)).tileExtent.width == tile.width
    check(r.cudaFreeMipmappedArray(mipmap))
    check(r.cudaFreeArray(array))


def test_surface_and_texture_objects_return_their_descriptors(bytes_array: Any, check: Any) -> None:
    array = bytes_array(r.cudaArraySurfaceLoadStore)
    resource = r.cudaResourceDesc()
    resource.resType = r.cudaResourceType.cudaResourceTypeArray
    resource.res.array.array = array
    surface = check(r.cudaCreateSurfaceObject(resource))
    assert int(check(r.cudaGetSurfaceObjectResourceDesc(surface)).res.array.array) == int(array)
    check(r.cudaDestroySurfaceObject(surface))
    sampling, view = r.cudaTextureDesc(), r.cudaResourceViewDesc()
    sampling.readMode = r.cudaTextureReadMode.cudaReadModeElementType
    view.format = r.cudaResourceViewFormat.cudaResViewFormatUnsignedChar1
    view.width, view.height = 64, 4
    texture = check(r.cudaCreateTextureObject(resource, sampling, view))
    assert check(r.cudaGetTextureObjectResourceViewDesc(texture)).width == 64
    check(r.cudaDestroyTextureObject(texture))
