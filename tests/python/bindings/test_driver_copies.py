# SPDX-License-Identifier: Apache-2.0
"""Copies through the driver bindings: batches, attributes, peers, arrays, decompression."""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import pytest
from cuda.bindings import driver as d

DEVICE = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
ORDER = d.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM


@pytest.fixture
def row(context: Any, check: Any) -> Any:
    """row(width): a one-dimensional array of bytes."""
    made = []

    def create(width: int) -> Any:
        wanted = d.CUDA_ARRAY_DESCRIPTOR()
        wanted.Width, wanted.Format, wanted.NumChannels = width, d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8, 1
        made.append(check(d.cuArrayCreate(wanted)))
        return made[-1]

    yield create
    for array in made:
        check(d.cuArrayDestroy(array))


def device_bytes(pointer: Any, n: int, check: Any) -> bytes:
    back = bytearray(n)
    check(d.cuMemcpyDtoH(back, pointer, n))
    return bytes(back)


def test_copies_to_and_from_arrays_preserve_bytes(memory: Any, stream: Any, row: Any, check: Any) -> None:
    first, second = row(64), row(64)
    check(d.cuMemcpyHtoD(memory, bytes(range(64)), 64))
    check(d.cuMemcpyDtoA(first, 0, memory, 64))
    check(d.cuMemcpyAtoA(second, 16, first, 0, 32))
    check(d.cuMemcpyAtoD(int(memory) + 256, second, 16, 32))
    assert device_bytes(int(memory) + 256, 32, check) == bytes(range(32))
    pinned = check(d.cuMemAllocHost(64))
    ctypes.memmove(int(pinned), bytes(range(100, 164)), 64)
    check(d.cuMemcpyHtoAAsync(first, 0, pinned, 64, stream))
    check(d.cuStreamSynchronize(stream))
    ctypes.memset(int(pinned), 0, 64)
    check(d.cuMemcpyAtoHAsync(pinned, first, 32, 32, stream))
    check(d.cuStreamSynchronize(stream))
    assert ctypes.string_at(int(pinned), 32) == bytes(range(132, 164))
    check(d.cuMemFreeHost(pinned))


def test_3d_copy_of_stream_ordered_memory_preserves_bytes(memory: Any, stream: Any, check: Any) -> None:
    pointer = check(d.cuMemAllocAsync(64, stream))
    check(d.cuMemsetD8Async(pointer, 7, 64, stream))
    check(d.cuStreamSynchronize(stream))
    p = d.CUDA_MEMCPY3D()
    p.srcMemoryType = p.dstMemoryType = DEVICE
    p.srcDevice, p.srcPitch, p.srcHeight, p.dstDevice, p.dstPitch, p.dstHeight = pointer, 8, 2, memory, 16, 2
    p.WidthInBytes, p.Height, p.Depth = 8, 2, 2
    check(d.cuMemcpy3D(p))
    assert device_bytes(memory, 64, check) == (b"\7" * 8 + bytes(8)) * 4
    check(d.cuMemFreeAsync(pointer, stream))


def test_2d_memset_of_every_width_sets_only_the_rectangle(memory: Any, stream: Any, check: Any) -> None:
    check(d.cuMemsetD2D8Async(memory, 16, 1, 2, 2, stream))
    check(d.cuMemsetD2D16Async(int(memory) + 64, 16, 0x0302, 1, 2, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuMemsetD2D32(int(memory) + 128, 16, 0x07060504, 1, 2))
    got = device_bytes(memory, 192, check)
    assert got[:20] == b"\1\1" + bytes(14) + b"\1\1" + bytes(2)
    assert got[64:68] == b"\2\3\0\0" and got[80:84] == b"\2\3\0\0"
    assert got[128:136] == b"\4\5\6\7" + bytes(4) and got[144:148] == b"\4\5\6\7"


def test_batch_of_copies_copies_every_range(memory: Any, stream: Any, since: Any, check: Any) -> None:
    since(12080)
    check(d.cuMemcpyHtoD(memory, bytes(range(64)), 64))
    base = int(memory)
    attributes = d.CUmemcpyAttributes()
    attributes.srcAccessOrder = ORDER
    targets, sources = [base + 1024, d.CUdeviceptr(base + 2048)], [memory, base + 32]
    check(d.cuMemcpyBatchAsync(targets, sources, [16, 8], 2, [attributes], [0], 1, stream))
    check(d.cuStreamSynchronize(stream))
    assert device_bytes(base + 1024, 16, check) == bytes(range(16))
    assert device_bytes(base + 2048, 8, check) == bytes(range(32, 40))
    with pytest.raises(ValueError, match="srcs has 1 elements, but count is 2"):
        d.cuMemcpyBatchAsync(targets, [memory], [16, 8], 2, [attributes], [0], 1, stream)


def operation(source: int, target: int, width: int, height: int) -> Any:
    op = d.CUDA_MEMCPY3D_BATCH_OP()
    for side, pointer in ((op.src, source), (op.dst, target)):
        side.type = d.CUmemcpy3DOperandType.CU_MEMCPY_OPERAND_TYPE_POINTER
        side.op.ptr.ptr, side.op.ptr.rowLength, side.op.ptr.layerHeight = pointer, 0, 0
    op.extent.width, op.extent.height, op.extent.depth = width, height, 1
    op.srcAccessOrder = ORDER
    return op


def test_batch_of_3d_copies_copies_every_range(memory: Any, stream: Any, since: Any, check: Any) -> None:
    since(12080)
    check(d.cuMemcpyHtoD(memory, bytes(range(64)), 64))
    base = int(memory)
    ops = [operation(base, base + 512, 8, 2), operation(base + 32, base + 640, 4, 1)]
    check(d.cuMemcpy3DBatchAsync(2, ops, 0, stream))
    check(d.cuStreamSynchronize(stream))
    assert device_bytes(base + 512, 16, check) == bytes(range(16))
    assert device_bytes(base + 640, 4, check) == bytes(range(32, 36))


def test_copy_with_attributes_preserves_bytes(memory: Any, stream: Any, since: Any, check: Any) -> None:
    since(13020)
    check(d.cuMemcpyHtoD(memory, bytes(range(64)), 64))
    base = int(memory)
    attributes = d.CUmemcpyAttributes()
    attributes.srcAccessOrder = ORDER
    check(d.cuMemcpyWithAttributesAsync(base + 512, base + 8, 8, attributes, stream))
    check(d.cuMemcpy3DWithAttributesAsync(operation(base + 16, base + 520, 8, 1), 0, stream))
    check(d.cuStreamSynchronize(stream))
    assert device_bytes(base + 512, 16, check) == bytes(range(8, 24))


def test_peer_copy_between_contexts_preserves_bytes(memory: Any, stream: Any, context: Any, check: Any) -> None:
    check(d.cuMemcpyHtoD(memory, bytes(range(64)), 64))
    base = int(memory)
    check(d.cuMemcpyPeer(base + 512, context, base, context, 8))
    check(d.cuMemcpyPeerAsync(base + 520, context, base + 8, context, 8, stream))
    check(d.cuStreamSynchronize(stream))
    p = d.CUDA_MEMCPY3D_PEER()
    p.srcMemoryType = p.dstMemoryType = DEVICE
    p.srcContext = p.dstContext = context
    p.srcDevice, p.dstDevice = base + 16, base + 528
    p.WidthInBytes, p.Height, p.Depth = 8, 1, 1
    check(d.cuMemcpy3DPeer(p))
    p.srcDevice, p.dstDevice = base + 24, base + 536
    check(d.cuMemcpy3DPeerAsync(p, stream))
    check(d.cuStreamSynchronize(stream))
    assert device_bytes(base + 512, 32, check) == bytes(range(32))


def test_deflate_buffer_is_decompressed_if_supported(
    memory: Any, device: Any, stream: Any, ints: Any, since: Any, check: Any
) -> None:
    since(12080)
    mask = check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, device))
    plain = bytes(range(64)) * 4
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(plain) + packer.flush()
    check(d.cuMemcpyHtoD(memory, packed, len(packed)))
    base = int(memory)
    params = d.CUmemDecompressParams()
    params.srcNumBytes, params.dstNumBytes = len(packed), len(plain)
    params.src, params.dst, params.dstActBytes = base, base + 1024, base + 2048
    params.algo = d.CUmemDecompressAlgorithm.CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE
    code, bad = d.cuMemBatchDecompressAsync([params], 1, 0, stream)
    if not mask & int(params.algo):
        assert code != 0 and bad is None
        return
    assert code == 0
    check(d.cuStreamSynchronize(stream))
    assert device_bytes(base + 1024, len(plain), check) == plain and ints(base + 2048, 1) == [len(plain)]
