# SPDX-License-Identifier: Apache-2.0
"""Bulk tensor copies (TMA) of boxes of one to five dimensions between global and shared memory: edges, strides, swizzles,
im2col, reductions, multicast, tensor maps changed on the device."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device
from ptxsuite.tensor_maps import (
    BFLOAT16,
    CHANGED,
    HEAD,
    IM2COL,
    LOAD,
    OTHERS,
    REDUCE,
    SPAN,
    TYPES,
    Five,
    Map,
    array,
    encoded,
    filled,
    swizzled,
    tiled,
)

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(scope="module")
def program() -> Program:
    source = HEAD + "".join(filled(LOAD, rank) for rank in range(1, 6))
    source += "".join(filled(IM2COL, rank) for rank in range(3, 6))
    source += "".join(REDUCE.replace("@OP@", op) for op in ("add", "min", "max", "and", "or", "xor", "inc", "dec"))
    return Program(source + OTHERS)


@pytest.fixture(scope="module")
def changing() -> Program:
    return Program(HEAD + CHANGED, arch="compute_90a")


def box_of(tensor: np.ndarray, start: list[int], box: list[int], steps: list[int], fill: object = 0) -> np.ndarray:
    """A box as a NumPy array. The lists have the innermost dimension first, `tensor` has it last."""
    counts = [box[0]] + [-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True)]
    out = np.full(counts[::-1], fill, tensor.dtype)
    for index in itertools.product(*(range(c) for c in counts)):
        place = [s + i * (step if k else 1) for k, (s, i, step) in enumerate(zip(start, index, steps, strict=True))]
        if all(0 <= p < n for p, n in zip(place, tensor.shape[::-1], strict=True)):
            out[index[::-1]] = tensor[tuple(place[::-1])]
    return out


def loaded(program: Program, map_: Map, rank: int, start: list[int], size: int, room: int | None = None) -> np.ndarray:
    out = np.zeros(size, np.uint8)
    program.run(f"load{rank}", 1, 32, map_, out, Five(*start), size, shared=room or size)
    return out


SHAPES = [  # dims, box, steps: innermost first
    ([100], [32], [1]),
    ([24, 9], [8, 4], [1, 1]),
    ([24, 9], [16, 6], [1, 2]),
    ([16, 6, 5], [8, 3, 2], [1, 1, 1]),
    ([16, 6, 5], [8, 5, 4], [1, 2, 3]),
    ([8, 5, 4, 3], [8, 2, 3, 2], [1, 1, 1, 1]),
    ([8, 4, 3, 3, 2], [4, 2, 2, 2, 2], [1, 1, 1, 1, 1]),
]


@pytest.mark.parametrize("type_", ["float16", "float32", "float64", "int32", "uint16"])
@pytest.mark.parametrize("dims,box,steps", SHAPES)
def test_tensor_load_fills_zeros_outside_the_tensor(
    program: Program, dims: list[int], box: list[int], steps: list[int], type_: str
) -> None:
    if type_ in ("float16", "uint16") and box[0] < 8:
        box, dims = [8, *box[1:]], [16, *dims[1:]]
    tensor = (np.arange(np.prod(dims)) % 2039 + 1).astype(type_).reshape(dims[::-1])
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES[type_], dims, list(tensor.strides[:-1][::-1]), box, steps=steps)
    for start in ([0] * 5, [8, 1, 1, 1, 0], [-8, -1, -1, 1, 1], [dims[0] // 8 * 8 - 8, 4, 3, 2, 1], [1000, 0, 0, 0, 0]):
        wanted = box_of(tensor, start[: len(dims)], box, steps)
        got = loaded(program, map_, len(dims), start, wanted.nbytes)
        np.testing.assert_array_equal(got.view(type_).reshape(wanted.shape), wanted)
    memory.free()


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("type_", ["uint8", "float32"])
def test_swizzle_permutes_chunks_of_16_bytes(program: Program, mode: int, type_: str) -> None:
    width = SPAN[mode] // np.dtype(type_).itemsize
    tensor = (np.arange(40 * 2 * width) % 251).astype(type_).reshape(40, 2 * width)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES[type_], [2 * width, 40], [tensor.strides[0]], [width, 24], swizzle=mode)
    wanted = box_of(tensor, [16, 20], [width, 24], [1, 1])
    got = loaded(program, map_, 2, [16, 20, 0, 0, 0], wanted.nbytes)
    assert got.tobytes() == swizzled(wanted.tobytes(), mode)
    memory.free()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_tensor_store_writes_only_inside_the_tensor(program: Program, mode: int) -> None:
    box = [SPAN[mode] // 4 or 16, 6]
    tensor = np.zeros((10, 40), np.float32)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES["float32"], [40, 10], [160], box, swizzle=mode)
    data = np.arange(1, box[0] * box[1] + 1, dtype=np.float32).reshape(box[::-1])
    for x, y in ((8, 2), (0, 0), (40 - 4, 7)):
        program.run("store2", 1, 32, map_, np.frombuffer(swizzled(data.tobytes(), mode), np.uint8).copy(),
                    Five(x, y), data.nbytes, shared=data.nbytes)  # fmt: skip
        for row, column in itertools.product(range(box[1]), range(box[0])):
            if 0 <= y + row < 10 and 0 <= x + column < 40:
                tensor[y + row, x + column] = data[row, column]
    np.testing.assert_array_equal(memory.read(np.float32, 400).reshape(10, 40), tensor)
    memory.free()


@pytest.mark.parametrize("rank", [1, 3, 4, 5])
def test_tensor_store_works_for_any_rank(program: Program, rank: int) -> None:
    dims, box = [16, 4, 3, 3, 2][:rank], [8, 3, 2, 2, 2][:rank]
    tensor = np.zeros(dims[::-1], np.float32)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES["float32"], dims, list(tensor.strides[:-1][::-1]), box)
    data = np.arange(1, np.prod(box) + 1, dtype=np.float32).reshape(box[::-1])
    start = [12, 2, 1, 2, 1][:rank]
    program.run(
        f"store{rank}", 1, 32, map_, data.view(np.uint8).ravel().copy(), Five(*start), data.nbytes, shared=data.nbytes
    )
    for index in itertools.product(*(range(b) for b in box)):
        place = [s + i for s, i in zip(start, index, strict=True)]
        if all(p < n for p, n in zip(place, dims, strict=True)):
            tensor[tuple(place[::-1])] = data[index[::-1]]
    np.testing.assert_array_equal(memory.read(np.float32, tensor.size).reshape(tensor.shape), tensor)
    memory.free()


REDUCTIONS = [
    ("add", "uint32"), ("add", "int32"), ("add", "uint64"), ("add", "float32"), ("add", "float16"), ("add", "float64"),
    ("min", "int32"), ("max", "uint32"), ("min", "float16"), ("max", "int64"), ("and", "uint32"), ("or", "uint64"), ("xor", "uint32"),
    ("inc", "uint32"), ("dec", "uint32"),
]  # fmt: skip


@pytest.mark.parametrize("op,type_", REDUCTIONS)
def test_tensor_reduction_updates_the_tensor(program: Program, op: str, type_: str) -> None:
    tensor = (np.arange(12 * 24) * 7 % 61 - (30 if type_[0] in "if" else 0)).astype(type_).reshape(12, 24)
    data = (np.arange(4 * 8) * 5 % 31 - (12 if type_[0] in "if" else 0)).astype(type_).reshape(4, 8)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES[type_], [20, 12], [tensor.strides[0]], [8, 4])
    program.run(f"reduce_{op}", 1, 32, map_, data.view(np.uint8).ravel().copy(), 16, 3, data.nbytes, shared=data.nbytes)
    # The tensor is 20 wide. Stores write whole chunks of 16 bytes (eight 16-bit numbers), beyond the end of the row.
    end = -(-20 * tensor.itemsize // 16) * 16 // tensor.itemsize
    old, new = tensor[3:7, 16:end].copy(), data[:, : end - 16]
    result = {
        "add": lambda: old + new, "min": lambda: np.minimum(old, new), "max": lambda: np.maximum(old, new),
        "and": lambda: old & new, "or": lambda: old | new, "xor": lambda: old ^ new,
        "inc": lambda: np.where(old >= new, 0, old + 1), "dec": lambda: np.where((old == 0) | (old > new), new, old - 1),
    }[op]()  # fmt: skip
    tensor[3:7, 16:end] = result
    np.testing.assert_array_equal(memory.read(type_, tensor.size).reshape(tensor.shape), tensor)
    memory.free()


def pixels_of(tensor: np.ndarray, start: list[int], offsets: list[int], channels: int, pixels: int,
              lower: list[int], upper: list[int], steps: list[int]) -> list[tuple[int, ...]]:  # fmt: skip
    """The position of each pixel of an im2col column (channel first), innermost dimension first."""
    extents = tensor.shape[::-1]
    spatial = len(lower)
    at, out = list(start), []
    for _ in range(pixels):
        out.append((at[0], *(at[1 + k] + offsets[k] for k in range(spatial)), at[-1]))
        for k in range(spatial):
            at[1 + k] += steps[1 + k]
            if at[1 + k] <= extents[1 + k] - 1 + upper[k]:
                break
            at[1 + k] = lower[k]
        else:
            at[-1] += 1
    return out


@pytest.mark.parametrize("rank,swizzle", [(3, 0), (4, 0), (4, 1), (4, 3), (5, 0)])
@pytest.mark.parametrize("step", [1, 2])
def test_im2col_load_reads_the_pixels_of_a_convolution(program: Program, rank: int, swizzle: int, step: int) -> None:
    spatial = rank - 2
    channels, pixels = (SPAN[swizzle] or 16) // 4, 24
    extents = [*[channels + 4, 6, 5, 4][: 1 + spatial], 3]
    tensor = (np.arange(np.prod(extents)) + 1).astype(np.float32).reshape(extents[::-1])
    memory = device().memory(tensor)
    lower, upper = [-1] * spatial, [-1] * spatial
    steps = [1] + [step] * spatial + [1]
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    map_ = encoded(
        "cuTensorMapEncodeIm2col", TYPES["float32"], u32(rank), ctypes.c_void_p(memory.address.value), array(u64, extents),
        array(u64, list(tensor.strides[:-1][::-1])), array(ctypes.c_int, lower), array(ctypes.c_int, upper),
        u32(channels), u32(pixels), array(u32, steps), 0, swizzle, 0, 0,
    )  # fmt: skip
    for start, offsets in (
        ([0] + [-1] * spatial + [0], [0] * spatial),
        ([4] + [1] * spatial + [1], [1] * spatial),
        ([0] + [-1] * spatial + [2], [2, 0, 1][:spatial]),
    ):
        places = pixels_of(tensor, start, offsets, channels, pixels, lower, upper, steps)
        wanted = np.stack([box_of(tensor, list(p), [channels] + [1] * (rank - 1), [1] * rank).ravel() for p in places])
        out = np.zeros(wanted.nbytes, np.uint8)
        program.run(
            f"im2col{rank}", 1, 32, map_, out, Five(*start), Five(*offsets), wanted.nbytes, shared=wanted.nbytes
        )
        assert out.tobytes() == swizzled(wanted.tobytes(), swizzle)
    memory.free()


def test_im2col_store_writes_the_pixels(program: Program) -> None:
    tensor = np.zeros((2, 4, 5, 4), np.float32)  # n h w c
    memory = device().memory(tensor)
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    map_ = encoded(
        "cuTensorMapEncodeIm2col", TYPES["float32"], u32(4), ctypes.c_void_p(memory.address.value), array(u64, [4, 5, 4, 2]),
        array(u64, list(tensor.strides[:-1][::-1])), array(ctypes.c_int, [0, 0]), array(ctypes.c_int, [0, 0]),
        u32(4), u32(8), array(u32, [1, 1, 1, 1]), 0, 0, 0, 0,
    )  # fmt: skip
    data = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
    program.run(
        "unfold4", 1, 32, map_, data.view(np.uint8).ravel().copy(), Five(0, 3, 3, 0), data.nbytes, shared=data.nbytes
    )
    for pixel, row in zip(pixels_of(tensor, [0, 3, 3, 0], [0, 0], 4, 8, [0, 0], [0, 0], [1] * 4), data, strict=True):
        tensor[pixel[3], pixel[2], pixel[1]] = row
    np.testing.assert_array_equal(memory.read(np.float32, tensor.size).reshape(tensor.shape), tensor)
    memory.free()


def test_multicast_load_reaches_all_blocks_of_a_cluster(program: Program) -> None:
    tensor = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES["float32"], [32, 16], [128], [8, 4])
    out = np.zeros(2 * 128, np.uint8)
    program.run("multicast", 2, 32, map_, out, 128, shared=128)
    wanted = tensor[1:5, 8:16].tobytes()
    assert out.tobytes() == wanted * 2
    memory.free()


def test_tensor_map_is_changed_on_the_device(changing: Program) -> None:
    first, other = np.zeros((8, 8), np.float32), np.arange(11 * 12, dtype=np.uint32).reshape(11, 12)
    memory, second, room = device().memory(first), device().memory(other), device().memory(128)
    map_ = tiled(memory.address.value, TYPES["float32"], [8, 8], [32], [4, 2])
    out = np.zeros(16 * 5, np.uint8)
    changing.run("changed", 1, 32, map_, room.address, second.address, out, 10, 6, ctypes.c_uint64(48), 5, shared=1024)
    tensor = other[:6, :10]
    np.testing.assert_array_equal(out.view(np.uint32).reshape(5, 4), box_of(tensor, [4, 2], [4, 5], [1, 1]))
    for each in (memory, second, room):
        each.free()


@pytest.mark.parametrize("code,size", [(6, 2), (BFLOAT16, 2), (7, 4), (8, 8)])
def test_oob_fill_uses_the_nan_of_fma_oob(program: Program, code: int, size: int) -> None:
    tensor = np.zeros((4, 16 * size), np.uint8)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, code, [12, 4], [16 * size], [8, 2], fill=1)
    got = loaded(program, map_, 2, [8, 3, 0, 0, 0], 16 * size).view(np.uint16).reshape(2, 8, size // 2)
    assert (got[0, :4] == 0).all()
    assert (got[0, 4:] == 0x7FF7).all() and (got[1] == 0x7FF7).all()
    memory.free()


def test_tf32_is_rounded_on_load(program: Program) -> None:
    bits = [0x1, 0x80000001, 0x7F800001, 0xFFC12345, 0x3F801FFF, 0x3F801000, 0x3F800FFF, 0x3F803000]
    memory = device().memory(np.array(bits, np.uint32))
    got = loaded(program, tiled(memory.address.value, 11, [8], [], [8]), 1, [0] * 5, 32).view(np.uint32)
    wanted = [0, 0x80000000, 0x7FFFE000, 0x7FFFE000, 0x3F802000, 0x3F800000, 0x3F800000, 0x3F804000]
    assert [hex(x) for x in got] == [hex(x) for x in wanted]
    memory.free()


@pytest.mark.parametrize("mode,width", [(3, 64), (3, 16), (2, 32), (1, 16)])
def test_a_box_narrower_than_the_swizzle_leaves_gaps(program: Program, mode: int, width: int) -> None:
    """The row pitch is that of the swizzle pattern; only the bytes of the box are written."""
    tensor = np.arange(16 * 64, dtype=np.uint32).reshape(16, 64)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES["uint32"], [64, 16], [256], [width // 4, 8], swizzle=mode)
    out = np.zeros(SPAN[mode] * 8, np.uint8)
    program.run("narrow", 1, 32, map_, out, width * 8, len(out), shared=1024)
    room = np.zeros((8, SPAN[mode] // 4), np.uint32)
    room[:, : width // 4] = tensor[2:10, 4 : 4 + width // 4]
    assert out.tobytes() == swizzled(room.tobytes(), mode)
    memory.free()


@pytest.mark.parametrize(
    "type_,inner,x,box", [("uint8", 33, 32, 32), ("float16", 17, 16, 8), ("float32", 18, 16, 16), ("uint64", 17, 16, 4)]
)
def test_tensor_store_writes_whole_chunks_of_16_bytes(
    program: Program, type_: str, inner: int, x: int, box: int
) -> None:
    """As on an H200: a row that ends within a 16-byte chunk is written to its end; loads return zeros there."""
    size = np.dtype(type_).itemsize
    end = -(-inner * size // 16) * 16 // size
    tensor = np.full((4, end + 64 // size), 3, type_)
    memory = device().memory(tensor)
    map_ = tiled(memory.address.value, TYPES[type_], [inner, 4], [tensor.strides[0]], [box, 2])
    data = np.full((2, box), 7, type_)
    program.run("store2", 1, 32, map_, data.view(np.uint8).ravel().copy(), Five(x, 1), data.nbytes, shared=data.nbytes)
    tensor[1:3, x : min(end, x + box)] = 7
    np.testing.assert_array_equal(memory.read(type_, tensor.size).reshape(tensor.shape), tensor)
    got = loaded(program, map_, 2, [x, 1, 0, 0, 0], data.nbytes).view(type_).reshape(2, box)
    np.testing.assert_array_equal(got, np.tile(np.where(np.arange(box) < inner - x, 7, 0), (2, 1)))
    memory.free()


# An interleaved tensor is [image][channel slice][D][H][W] with slices of 16 or 32 bytes; the dimensions, innermost first, are
# W, H, D, slice, image. A copy always transfers one channel slice, independent of its box.
INTERLEAVED = [([20, 9, 5], [8, 3, 2]), ([10, 5, 7, 4], [8, 2, 2, 2]), ([9, 4, 3, 5, 3], [8, 2, 2, 1, 2])]


def slices(dims: list[int], interleave: int) -> np.ndarray:
    """A tensor of distinct 16-bit numbers."""
    shape = [*dims[::-1], 8 * interleave]
    return (np.arange(np.prod(shape)) + 1).astype(np.uint16).reshape(shape)


def slice_box(tensor: np.ndarray, start: list[int], box: list[int]) -> np.ndarray:
    box = [1 if k == len(box) - 2 else n for k, n in enumerate(box)]
    out = np.zeros((*box[::-1], tensor.shape[-1]), np.uint16)
    for index in itertools.product(*(range(n) for n in box)):
        place = [s + i for s, i in zip(start, index, strict=True)]
        if all(0 <= p < n for p, n in zip(place, tensor.shape[-2::-1], strict=True)):
            out[index[::-1]] = tensor[tuple(place[::-1])]
    return out


@pytest.mark.parametrize("interleave,swizzle", [(1, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize("dims,box", INTERLEAVED, ids=["3", "4", "5"])
def test_interleaved_load_reads_one_slice_of_the_channels(
    program: Program, dims: list[int], box: list[int], interleave: int, swizzle: int
) -> None:
    rank, tensor = len(dims), slices(dims, interleave)
    memory = device().memory(tensor)
    strides = list(tensor.strides[-3::-1])
    map_ = tiled(memory.address.value, TYPES["uint16"], dims, strides, box, interleave=interleave, swizzle=swizzle)
    for start in ([0] * 5, [1, 1, 1, 1, 1], [-3, 0, 0, 0, 0], [dims[0] - 2, dims[1] - 1, 0, 0, 0], [0, -1, 0, 0, 0]):
        wanted = slice_box(tensor, start[:rank], box)
        got = loaded(program, map_, rank, start, wanted.nbytes)
        assert got.tobytes() == swizzled(wanted.tobytes(), swizzle), start
    start = [dims[0] - 3, 1, 1, 1, 1][:rank]
    data = slice_box(tensor, [0] * rank, box) + np.uint16(30000)
    given = np.frombuffer(swizzled(data.tobytes(), swizzle), np.uint8).copy()
    program.run(f"store{rank}", 1, 32, map_, given, Five(*start), len(given), shared=len(given))
    for index in itertools.product(*(range(n) for n in data.shape[-2::-1])):
        place = [s + i for s, i in zip(start, index, strict=True)]
        if all(p < n for p, n in zip(place, dims, strict=True)):
            tensor[tuple(place[::-1])] = data[index[::-1]]
    np.testing.assert_array_equal(memory.read(np.uint16, tensor.size).reshape(tensor.shape), tensor)
    memory.free()


@pytest.mark.parametrize("interleave,swizzle", [(1, 0), (2, 1)])
@pytest.mark.parametrize("dims", [dims for dims, _ in INTERLEAVED], ids=["3", "4", "5"])
def test_im2col_load_of_an_interleaved_tensor_reads_its_pixels(
    program: Program, dims: list[int], interleave: int, swizzle: int
) -> None:
    rank, spatial, pixels, tensor = len(dims), len(dims) - 2, 24, slices(dims, interleave)
    memory = device().memory(tensor)
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    map_ = encoded(
        "cuTensorMapEncodeIm2col", TYPES["uint16"], u32(rank), ctypes.c_void_p(memory.address.value), array(u64, dims),
        array(u64, list(tensor.strides[-3::-1])), array(ctypes.c_int, [-1] * spatial), array(ctypes.c_int, [-1] * spatial),
        u32(8), u32(pixels), array(u32, [1] * rank), interleave, swizzle, 0, 0,
    )  # fmt: skip
    for start, offsets in (([0] * 5, [0] * 3), ([-1] * spatial + [1, 1], [1, 2, 0])):
        at, wanted = list(start[:rank]), np.zeros((pixels, 8 * interleave), np.uint16)
        for pixel in range(pixels):
            place = [p + o for p, o in zip(at, [*offsets[:spatial], 0, 0], strict=True)]
            if all(0 <= p < n for p, n in zip(place, dims, strict=True)):
                wanted[pixel] = tensor[tuple(place[::-1])]
            for k in range(spatial):
                at[k] += 1
                if at[k] <= dims[k] - 2:
                    break
                at[k] = -1
            else:
                at[-1] += 1
        out = np.zeros(wanted.nbytes, np.uint8)
        program.run(
            f"im2col{rank}", 1, 32, map_, out, Five(*start[:rank]), Five(*offsets), len(out), shared=len(out)
        )  # fmt: skip
        assert out.tobytes() == swizzled(wanted.tobytes(), swizzle)
    memory.free()


FAULTY = {
    "a load off 16 bytes": "t.loaded(p, m, 2, [2, 0, 0, 0, 0], 64)",
    "a store off 16 bytes": "store(2, 0)",
    "a store left of the tensor": "store(-4, 0)",
    "a store above the tensor": "store(0, -1)",
    "a pixel before the box of pixels": "pixels(-2)",
    "a pixel after the box of pixels": "pixels(7)",
}


@pytest.mark.parametrize("what", FAULTY)
def test_coordinates_that_an_h200_rejects_are_error_715(what: str) -> None:
    """Error 715, in a separate process because the fault is sticky."""
    script = f"""
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import test_tensor_copies as t
from ptxsuite.device import DriverError
p = t.Program(t.HEAD + t.filled(t.LOAD, 2) + t.filled(t.IM2COL, 3))
memory = t.device().memory(np.zeros((8, 64), np.float32))
m = t.tiled(memory.address.value, t.TYPES["float32"], [64, 8], [256], [8, 2])
def pixels(x):
    u64, u32, i32 = t.ctypes.c_uint64, t.ctypes.c_uint32, t.ctypes.c_int
    corners = t.array(i32, [-1]), t.array(i32, [-1])
    m3 = t.encoded("cuTensorMapEncodeIm2col", t.TYPES["float32"], u32(3), t.ctypes.c_void_p(memory.address.value), t.array(u64, [8, 8, 4]),
                   t.array(u64, [32, 256]), *corners, u32(4), u32(4), t.array(u32, [1, 1, 1]), 0, 0, 0, 0)
    p.run("im2col3", 1, 32, m3, np.zeros(64, np.uint8), t.Five(0, x, 0), t.Five(1), 64, shared=64)
def store(x, y):
    p.run("store2", 1, 32, m, np.zeros(64, np.uint8), t.Five(x, y), 64, shared=64)
t.loaded(p, m, 2, [-4, -1, 0, 0, 0], 64)
store(60, 7)
pixels(-1)
pixels(6)
try:
    {FAULTY[what]}
except DriverError as error:
    sys.exit(error.code % 256)
"""
    done = subprocess.run([sys.executable, "-c", script, str(Path(__file__).parent)], capture_output=True, check=False)
    assert done.returncode == 715 % 256, done.stderr.decode()
