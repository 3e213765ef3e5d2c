# SPDX-License-Identifier: Apache-2.0
"""Bulk tensor copies of compute capability 10.0: four rows at a time, pixels along the width, swizzles of larger chunks, CTA pairs.
No such GPU was asked: the expected values follow from the text of the PTX manual."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program, device
from ptxsuite.tensor_maps import HEAD, TYPES, Five, Map, array, encoded, swizzled, tiled

pytestmark = pytest.mark.cpu_only
skip_module_without_nvrtc()

SOURCE = (
    HEAD
    + r"""
#define LOAD(name, words, coordinates, operands, inputs)                                                               \
  extern "C" __global__ void name(const __grid_constant__ Map map, unsigned char* out, Five at5, int x, int y, int bytes) { \
    extern __shared__ __align__(1024) unsigned char tile[];                                                            \
    __shared__ u64 bar;                                                                                                \
    if (threadIdx.x == 0) init(&bar);                                                                                  \
    __syncthreads();                                                                                                   \
    if (threadIdx.x == 0) {                                                                                            \
      asm volatile("{ .reg .b16 h0, h1; cvt.u16.u32 h0, %8; cvt.u16.u32 h1, %9; cp.async.bulk.tensor." words           \
                   " [%0], [%1, {" coordinates "}], [%2]" operands "; }"                                               \
                   ::"r"(at(tile)), "l"(&map), "r"(at(&bar)), "r"(at5.c[0]), "r"(at5.c[1]), "r"(at5.c[2]),             \
                     "r"(at5.c[3]), "r"(at5.c[4]), "r"(x), "r"(y) : "memory");                                         \
      expect(&bar, bytes);                                                                                             \
    }                                                                                                                  \
    wait(&bar, 0);                                                                                                     \
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];                                            \
  }
#define DONE ".mbarrier::complete_tx::bytes"
LOAD(gather, "2d.shared::cta.global.tile::gather4" DONE, "%3, %4, %5, %6, %7", "", )
LOAD(gather_pair, "2d.shared::cluster.global.tile::gather4" DONE ".cta_group::1", "%3, %4, %5, %6, %7", "", )
LOAD(tile_pair, "2d.shared::cta.global.tile" DONE ".cta_group::2", "%3, %4", "", )
LOAD(plain, "2d.shared::cta.global.tile" DONE, "%3, %4", "", )
LOAD(wide4, "4d.shared::cta.global.im2col::w" DONE, "%3, %4, %5, %6", ", {h0, h1}", )
LOAD(wide128, "4d.shared::cta.global.im2col::w::128" DONE, "%3, %4, %5, %6", ", {h0, h1}", )
extern "C" __global__ void scatter(const __grid_constant__ Map map, const unsigned char* in, Five at5, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(&map), "r"(at(tile)), "r"(at5.c[0]), "r"(at5.c[1]), "r"(at5.c[2]), "r"(at5.c[3]), "r"(at5.c[4]) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
extern "C" __global__ void atoms(const __grid_constant__ Map map, Map* room, unsigned char* out, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  if (threadIdx.x < 16) room->opaque[threadIdx.x] = map.opaque[threadIdx.x];
  if (threadIdx.x == 0) init(&bar);
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%0], 3;" ::"l"(room) : "memory");
    asm volatile("fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(room) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];"
                 ::"r"(at(tile)), "l"(room), "r"(at(&bar)), "r"(0) : "memory");
    expect(&bar, bytes);
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
"""
)


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")


@pytest.fixture
def program(_arch: None) -> Program:
    return Program(SOURCE, arch="compute_100a")  # loaded for each test: one of them resets the context


def matrix(rows: int, columns: int) -> np.ndarray:
    return np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns) + 1


def load(program: Program, kernel: str, map_: Map, start: list[int], count: int, x: int = 0, y: int = 0) -> np.ndarray:
    out = np.zeros(4 * count, np.uint8)
    at5 = Five(*start, *[0] * (5 - len(start)))
    program.run(kernel, 1, 64, map_, out, at5, x, y, 4 * count, shared=max(4 * count, 1024))
    return out.view(np.uint32)


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", ["gather", "gather_pair"])
def test_gather_of_four_rows(program: Program, kernel: str, swizzle: int) -> None:
    data, columns = matrix(20, 64), {0: 16, 1: 8, 2: 16, 3: 32}[swizzle]
    memory = device().memory(data)
    map_ = tiled(memory.address.value, TYPES["uint32"], [64, 20], [256], [columns, 1], swizzle=swizzle)
    rows = [7, 0, 25, 19]  # the third is out of bounds, and all end after eight columns
    expected = np.zeros((4, columns), np.uint32)
    for n, row in enumerate(rows):
        if row < 20:
            expected[n, :8] = data[row, 56:]
    got = load(program, kernel, map_, [56, *rows], expected.size)
    assert got.tobytes() == swizzled(expected.tobytes(), swizzle)
    memory.free()


def test_scatter_of_four_rows(program: Program) -> None:
    data, tile = matrix(20, 64), np.arange(64, dtype=np.uint32) + 100000
    memory = device().memory(data)
    map_ = tiled(memory.address.value, TYPES["uint32"], [64, 20], [256], [16, 1])
    rows = [3, 19, 20, 0]
    program.run("scatter", 1, 64, map_, tile.view(np.uint8), Five(32, *rows), 256, shared=1024)
    expected = data.copy()
    for n, row in enumerate(rows):
        if row < 20:
            expected[row, 32:48] = tile[16 * n : 16 * n + 16]
    assert np.array_equal(memory.read(np.uint32, data.size).reshape(data.shape), expected)
    memory.free()


def test_copy_for_a_pair_of_blocks_equals_the_plain_one(program: Program) -> None:
    memory = device().memory(matrix(20, 64))
    map_ = tiled(memory.address.value, TYPES["uint32"], [64, 20], [256], [16, 4])
    assert np.array_equal(load(program, "tile_pair", map_, [8, 3], 64), load(program, "plain", map_, [8, 3], 64))
    memory.free()


def test_four_rows_need_a_box_of_one_row(program: Program) -> None:
    memory = device().memory(matrix(20, 64))
    map_ = tiled(memory.address.value, TYPES["uint32"], [64, 20], [256], [16, 4])
    with pytest.raises(DriverError) as error:
        load(program, "gather", map_, [0, 0, 1, 2, 3], 64)
    assert error.value.code == 715
    device().reset()


def wide_map(address: int, dims: list[int], lower: int, upper: int, pixels: int, mode: int, step: int = 1) -> Map:
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    strides = np.cumprod(dims[:-1]) * 4
    return encoded(
        "cuTensorMapEncodeIm2colWide", TYPES["uint32"], u32(4), ctypes.c_void_p(address), array(u64, dims),
        array(u64, strides.tolist()), lower, upper, u32(8), u32(pixels), array(u32, [1, step, 1, 1]), 0, mode, 1, 0, 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "pixels", "mode", "offset", "start", "step"),
    [("wide4", 40, 0, 0, -1, 1), ("wide4", 40, 0, 2, 5, 1), ("wide4", 16, 0, 1, 0, 2), ("wide128", 4, 1, 1, 3, 1)],
)
def test_pixels_along_the_width(
    program: Program, kernel: str, pixels: int, mode: int, offset: int, start: int, step: int
) -> None:
    # Inside: N x H x W x C. The box of pixels goes from -1 to W - 3 along the width alone.
    images, height, width, channels, lower, upper = 20, 3, 11, 8, -1, -2
    data = np.arange(images * height * width * channels, dtype=np.uint32).reshape(images, height, width, channels) + 1
    memory = device().memory(data)
    map_ = wide_map(memory.address.value, [channels, width, height, images], lower, upper, pixels, mode, step)
    count = 128 if kernel == "wide128" else pixels
    got = load(program, kernel, map_, [0, start, 2, 4], count * channels, 0, offset)
    expected = np.zeros((count, channels), np.uint32)
    w, n = start + offset, 4
    for p in range(count):
        if 0 <= w < width and n < images:
            expected[p] = data[n, 2, w]
        w += step
        if w > width - 1 + upper + offset:
            w, n = lower + offset, n + 1
    assert got.tobytes() == swizzled(expected.tobytes(), 1)
    memory.free()


@pytest.mark.parametrize(("swizzle", "chunk", "mask"), [(4, 32, 3), (6, 64, 1)])
def test_swizzle_of_larger_chunks(program: Program, swizzle: int, chunk: int, mask: int) -> None:
    data = matrix(16, 32)
    memory = device().memory(data)
    map_ = tiled(memory.address.value, TYPES["uint32"], [32, 16], [128], [32, 16], swizzle=swizzle)
    expected = bytearray(data.nbytes)
    for at in range(0, data.nbytes, chunk):
        to = at ^ ((at >> 7) & mask) * chunk
        expected[to : to + chunk] = data.tobytes()[at : at + chunk]
    assert load(program, "plain", map_, [0, 0], data.size).tobytes() == bytes(expected)
    if swizzle == 6:  # the same by tensormap.replace
        map_ = tiled(memory.address.value, TYPES["uint32"], [32, 16], [128], [32, 16], swizzle=3)
        out, room = np.zeros(data.nbytes, np.uint8), np.zeros(16, np.uint64)
        program.run("atoms", 1, 64, map_, room, out, data.nbytes, shared=data.nbytes)
        assert out.tobytes() == bytes(expected)
    memory.free()


def test_swizzle_of_larger_chunks_is_refused_before_10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "9.0")
    memory = device().memory(matrix(16, 32))
    with pytest.raises(DriverError) as error:
        tiled(memory.address.value, TYPES["uint32"], [32, 16], [128], [32, 16], swizzle=4)
    assert error.value.code == 1
    memory.free()
