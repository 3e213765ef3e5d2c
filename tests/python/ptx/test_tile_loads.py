# SPDX-License-Identifier: Apache-2.0
"""Loads of tiles with a border, and divisions by constants, with every number of lanes.

NVRTC writes `i / 18` as a product, which is recognized. In a group of neighbouring threads the quotient changes once; before and from that
lane on, vector code loads contiguous memory if no lane is clamped. All of this must not change a result, and must not access memory that
no thread accesses.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

pytestmark = pytest.mark.usefixtures("any_width")
cpu_only = pytest.mark.skipif(
    os.environ.get("CUCORE_DEVICE", "cpu") == "gpu", reason="passes host memory to a kernel of the CPU device"
)

TILE = """
extern "C" __global__ void tiles(const TYPE* in, TYPE* out, int width, int height) {
  __shared__ TYPE tile[ROWS * COLUMNS];
  INDEX x0 = (INDEX)blockIdx.x * (COLUMNS - 2) - 1, y0 = (INDEX)blockIdx.y * (ROWS - 2) - 1;
  for (INDEX i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) {
    INDEX x = min(max(x0 + i % COLUMNS, (INDEX)0), (INDEX)width - 1), y = min(max(y0 + i / COLUMNS, (INDEX)0), (INDEX)height - 1);
    tile[i] = in[y * width + x];
  }
  __syncthreads();
  unsigned long long block = blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) out[block * ROWS * COLUMNS + i] = tile[i];
}
"""


def tiles_of(image: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, tuple[int, int]]:
    height, width = image.shape
    grid = -(-width // (columns - 2)), -(-height // (rows - 2))
    padded = np.pad(image, ((1, rows), (1, columns)), "edge")
    tiles = [
        padded[y * (rows - 2) : y * (rows - 2) + rows, x * (columns - 2) : x * (columns - 2) + columns]
        for y in range(grid[1])
        for x in range(grid[0])
    ]
    return np.stack(tiles), grid


def tile_program(kind: str, index: str, rows: int, columns: int) -> Program:
    source = TILE.replace("TYPE", kind).replace("INDEX", index)
    return Program(source.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))


@pytest.mark.parametrize("columns", [16, 17, 18, 33, 34, 66])
@pytest.mark.parametrize(("kind", "index"), [("float", "int"), ("double", "long long"), ("unsigned char", "int")])
def test_tiles_with_a_border_match_numpy(kind: str, index: str, columns: int) -> None:
    dtype = {"float": np.float32, "double": np.float64, "unsigned char": np.uint8}[kind]
    rows = 10
    program = tile_program(kind, index, rows, columns)
    for height, width in [(1, 1), (3, 40), (29, 100), (50, 17), (9, 131)]:
        image = (np.arange(height * width).reshape(height, width) * 37 % 251).astype(dtype)
        tiles, grid = tiles_of(image, rows, columns)
        out = np.zeros_like(tiles)
        program.run("tiles", (*grid, 1), 128, image, out, width, height)
        assert np.array_equal(out, tiles), (height, width)


@cpu_only
def test_tiles_at_the_ends_of_memory_read_nothing_beyond() -> None:
    page = mmap.PAGESIZE
    program = tile_program("float", "int", 18, 18)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for height, width in [(page // 4 // 64, 64), (7, 19), (40, 25)]:
        image = np.arange(height * width, dtype=np.float32).reshape(height, width)
        pages = -(-image.nbytes // page)
        for at_end in (False, True):
            memory = mmap.mmap(-1, (pages + 2) * page)
            base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            start = page + (pages * page - image.nbytes if at_end else 0)
            memory[start : start + image.nbytes] = image.tobytes()
            for guard in (base, base + (pages + 1) * page):
                assert libc.mprotect(guard, page, 0) == 0
            tiles, grid = tiles_of(image, 18, 18)
            out = np.zeros_like(tiles)
            arguments = ctypes.c_uint64(base + start), out, width, height
            program.run("tiles", (*grid, 1), 256, *arguments)
            assert np.array_equal(out, tiles), (height, width, at_end)
            for guard in (base, base + (pages + 1) * page):
                assert libc.mprotect(guard, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


CLAMPED = """
extern "C" __global__ void clamped(const int* in, int* out, int n, int shift) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[min(max((int)((unsigned)i + (unsigned)shift), 0), n - 1)];
}
extern "C" __global__ void clamped_unsigned(const int* in, int* out, int n, int shift) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[min((unsigned)i + (unsigned)shift, (unsigned)n - 1)];
}
"""


@pytest.mark.parametrize("shift", [0, 5, -5, -64, 70, 2**31 - 40, -(2**31), 2**31 - 96, -30])
def test_clamped_indices_match_numpy_where_they_wrap(shift: int) -> None:
    data = np.arange(100, 200, dtype=np.int32)
    program = Program(CLAMPED)
    i = np.arange(96, dtype=np.int64)
    for kernel in ("clamped", "clamped_unsigned"):
        wrapped = (i + shift) % 2**32
        if kernel == "clamped":
            wrapped = (wrapped + 2**31) % 2**32 - 2**31
        out = np.zeros(96, np.int32)
        program.run(kernel, 3, 32, data, out, len(data), shift)
        assert np.array_equal(out, data[np.clip(wrapped, 0, len(data) - 1)]), kernel


DIVISORS = [*range(2, 15), 18, 20, 25, 28, 34, 60, 66, 100, 125, 128, 625, 641, 1000, 4095, 65537, 1000003, 2**31 - 1]


def division_source() -> str:
    parts = []
    for d in DIVISORS:
        for name, kind in (("s", "int"), ("u", "unsigned")):
            parts.append(f"""
extern "C" __global__ void divide_{name}{d}(const {kind}* in, {kind}* out, {kind} first, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  {kind} x = in[i], y = first + ({kind})i;
  out[4 * i] = x / ({kind}){d};
  out[4 * i + 1] = x % ({kind}){d};
  out[4 * i + 2] = y / ({kind}){d};
  out[4 * i + 3] = y % ({kind}){d};
}}""")
    return "".join(parts)


def test_quotients_by_constants_match_numpy() -> None:
    program = Program(division_source())
    random = np.random.default_rng(3)
    for d in DIVISORS:
        for name, kind in (("s", np.int32), ("u", np.uint32)):
            info = np.iinfo(kind)
            near = [k * d + e for k in (0, 1, 2, 3, info.max // d, info.max // d - 1) for e in (-2, -1, 0, 1, 2)]
            near += [-n for n in near] + [info.min, info.min + 1, info.max, info.max - 1]
            x = np.concatenate([
                np.array([n for n in near if info.min <= n <= info.max], np.int64),
                random.integers(info.min, info.max, 150, endpoint=True),
            ]).astype(kind)  # fmt: skip
            for first in (0, min(max(d - 20, 0), info.max - len(x)), info.max - len(x)):
                y = first + np.arange(len(x), dtype=np.int64)
                out = np.zeros((len(x), 4), kind)
                program.run(f"divide_{name}{d}", -(-len(x) // 64), 64, x, out, ctypes.c_uint32(first), len(x))
                for column, of in ((0, x.astype(np.int64)), (2, y)):
                    quotient = np.sign(of) * (np.abs(of) // d)
                    assert np.array_equal(out[:, column], quotient.astype(kind)), (d, name, first)
                    assert np.array_equal(out[:, column + 1], (of - quotient * d).astype(kind)), (d, name, first)


SHIFTED = """
extern "C" __global__ void tile(const int* in, int* out, int width, int low, int x0, int y0) {
  for (int i = threadIdx.x; i < 18 * 9; i += blockDim.x) {
    int x = min(max((int)((unsigned)x0 + i % 18), low), width - 1), y = min(max(y0 + i / 18, 0), 8);
    out[i] = in[y * width + x];
  }
}
extern "C" __global__ void tile_unsigned(const int* in, int* out, int width, int low, int x0, int y0) {
  for (unsigned i = threadIdx.x; i < 18 * 9; i += blockDim.x) {
    unsigned x = min((unsigned)x0 + i % 18, (unsigned)width - 1), y = min(max(y0 + (int)(i / 18), 0), 8);
    out[i] = in[y * width + x];
  }
}
"""


@pytest.mark.parametrize("low", [0, 3, 90])
@pytest.mark.parametrize("x0", [0, 1, -1, -17, -18, 72, 73, 74, 90, 2**31 - 18, 2**31 - 17, -(2**31), -(2**31) + 4])
def test_tiles_whose_columns_wrap_match_numpy(x0: int, low: int) -> None:
    image = np.arange(9 * 91, dtype=np.int32).reshape(9, 91)
    program = Program(SHIFTED)
    i = np.arange(18 * 9, dtype=np.int64)
    rows = np.clip(i // 18 - 2, 0, 8)
    wrapped = (x0 + i % 18) % 2**32
    signed = (wrapped + 2**31) % 2**32 - 2**31
    for kernel, columns in (("tile", np.clip(signed, low, 90)), ("tile_unsigned", np.minimum(wrapped, 90))):
        out = np.zeros(18 * 9, np.int32)
        program.run(kernel, 1, 64, image, out, 91, low, x0, -2)
        assert np.array_equal(out, image[rows, columns]), kernel


def test_divisions_by_constants_in_branches_match_numpy() -> None:
    kinds = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "short": np.int16}
    divisors = (1, -1, 2, -3, 7, 18, 641, 32767)
    for kind, dtype in kinds.items():
        chosen = [d for d in divisors if d > 0 or kind != "unsigned"]
        lines = "".join(
            f"if ((i + {n}) % 3 != which) {{ out[i * {2 * len(chosen)} + {2 * n}] = x / ({kind})({d}); out[i * {2 * len(chosen)} + {2 * n + 1}] = x % ({kind})({d}); }}"
            for n, d in enumerate(chosen)
        )
        program = Program(
            f'extern "C" __global__ void divide(const {kind}* in, {kind}* out, int which) {{ int i = threadIdx.x; {kind} x = in[i]; {lines} }}'
        )
        ends = np.iinfo(dtype)
        values = np.random.default_rng(3).integers(ends.min, ends.max, 100, dtype, endpoint=True)
        values[:6] = [0, 1, ends.max, ends.min + (kind != "unsigned"), 18, 17]
        out = np.full((100, len(chosen), 2), 99, dtype)
        program.run("divide", 1, 100, values, out, 1)
        expected = np.full_like(out, 99)
        for n, d in enumerate(chosen):
            quotients = [abs(int(x)) // abs(d) * (1 if (x < 0) == (d < 0) else -1) for x in values]
            on = (np.arange(100) + n) % 3 != 1
            expected[on, n, 0] = np.array(quotients)[on]
            expected[on, n, 1] = np.array([int(x) - q * d for x, q in zip(values, quotients, strict=True)])[on]
        assert np.array_equal(out, expected), kind
