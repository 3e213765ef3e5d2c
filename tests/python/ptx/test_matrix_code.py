# SPDX-License-Identifier: Apache-2.0
"""Matrix products of warps in vector code: every shape and layout, the bits of fibers, and when fibers run them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

ABOUT_VECTOR_CODE = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about code of the CPU device")
SHAPES = [(16, 16), (32, 8), (8, 32)]
ORDERS = ("row", "col")

WMMA = """
#include <mma.h>
using namespace nvcuda;
template <int M, int N, class LA, class LB>
__device__ void product(const half* a, const half* b, float* c, int lda, int ldb, int ldc, wmma::layout_t from, wmma::layout_t to) {
  int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  wmma::fragment<wmma::matrix_a, M, N, 16, half, LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, 16, half, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, 16, float> fc;
  wmma::load_matrix_sync(fa, a + warp * 32 * lda, lda);
  wmma::load_matrix_sync(fb, b + warp * 32 * ldb, ldb);
  wmma::load_matrix_sync(fc, c + warp * 32 * ldc, ldc, from);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c + warp * 32 * ldc, fc, ldc, to);
}
"""
WMMA += "".join(
    f"""extern "C" __global__ void {la}_{lb}_{lc}_{m}_{n}(const half* a, const half* b, float* c, int lda, int ldb, int ldc) {{
      product<{m}, {n}, wmma::{la}_major, wmma::{lb}_major>(a, b, c, lda, ldb, ldc, wmma::mem_{lc}_major, wmma::mem_{lc}_major);
    }}
    """
    for (m, n), la, lb, lc in itertools.product(SHAPES, ORDERS, ORDERS, ORDERS)
)


def tiles(rows: int, columns: int, order: str, stride: int, values: np.ndarray) -> np.ndarray:
    """Of four warps, each in 32 rows (columns) of the stride."""
    memory = np.zeros((4, 32, stride), values.dtype)
    shown = values if order == "row" else values.transpose(0, 2, 1)
    memory[:, : rows if order == "row" else columns, : columns if order == "row" else rows] = shown
    return memory


@pytest.mark.parametrize("shape", SHAPES)
def test_wmma_of_every_shape_and_layout_matches_numpy(shape: tuple[int, int], any_width: str) -> None:
    m, n = shape
    random, program = np.random.default_rng(7), Program(WMMA)
    for la, lb, lc in itertools.product(ORDERS, repeat=3):
        a, b = (random.integers(-4, 5, (4, *s)).astype(np.float16) for s in ((m, 16), (16, n)))
        c = random.integers(-9, 9, (4, m, n)).astype(np.float32)
        out = tiles(m, n, lc, 40, c)
        program.run(f"{la}_{lb}_{lc}_{m}_{n}", 2, 64, tiles(m, 16, la, 48, a), tiles(16, n, lb, 56, b), out, 48, 56, 40)
        wanted = a.astype(np.float32) @ b.astype(np.float32) + c
        assert np.array_equal(out, tiles(m, n, lc, 40, wanted)), (la, lb, lc)


def any_halves(random: np.random.Generator, count: int, special: bool) -> np.ndarray:
    """All exponents; with infinities and NaN if asked for."""
    bits = random.integers(0, 1 << 16, count).astype(np.uint16)
    if not special:
        bits = np.where((bits & 0x7C00) == 0x7C00, bits ^ 0x4000, bits)
    return bits


def any_floats(random: np.random.Generator, count: int, special: bool) -> np.ndarray:
    bits = random.integers(0, 1 << 32, count).astype(np.uint32)
    near = (bits & 0x807FFFFF) | (random.integers(100, 150, count).astype(np.uint32) << 23)
    bits = np.where(random.random(count) < 0.8, near, bits)
    return bits if special else np.where((bits & 0x7F800000) == 0x7F800000, bits ^ 0x40000000, bits)


MMA = """
extern "C" __global__ void wide(const unsigned* a, const unsigned* b, float* c) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  a += 4 * t, b += 2 * t, c += 4 * t;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void narrow(const unsigned* a, const unsigned* b, float* c) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  a += 4 * t, b += 2 * t, c += 4 * t;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
extern "C" __global__ void brain(const unsigned* a, const unsigned* b, float* c) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  a += 4 * t, b += 2 * t, c += 4 * t;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""


def mma_element(which: str, lane: int, index: int) -> tuple[int, int]:
    """Row and column of an element of m16n8k16, as in the PTX manual."""
    group, thread = lane // 4, lane % 4
    if which == "c":
        return group + index // 2 * 8, thread * 2 + index % 2
    if which == "b":
        return thread * 2 + index % 2 + index // 2 * 8, group
    return group + index // 2 % 2 * 8, thread * 2 + index % 2 + index // 4 * 8


def test_mma_fragments_are_those_of_the_manual(any_width: str) -> None:
    random, program = np.random.default_rng(8), Program(MMA)
    for kernel, depth in (("wide", 16), ("narrow", 8)):
        a, b = random.integers(-4, 5, (16, depth)), random.integers(-4, 5, (depth, 8))
        c = random.integers(-9, 9, (16, 8))
        fa, fb, fc = np.zeros((32, 8), np.float16), np.zeros((32, 4), np.float16), np.zeros((32, 4), np.float32)
        for lane in range(32):
            for i in range(depth // 2):
                fa[lane, i] = a[mma_element("a", lane, i)]
            for i in range(depth // 4):
                fb[lane, i] = b[mma_element("b", lane, i)]
            for i in range(4):
                fc[lane, i] = c[mma_element("c", lane, i)]
        program.run(kernel, 1, 32, fa, fb, fc)
        made = np.zeros((16, 8))
        for lane in range(32):
            for i in range(4):
                made[mma_element("c", lane, i)] = fc[lane, i]
        assert np.array_equal(made, a @ b + c), kernel


@pytest.mark.parametrize("special", [False, True])
def test_products_of_vector_code_have_the_bits_of_fibers(monkeypatch: pytest.MonkeyPatch, special: bool) -> None:
    random = np.random.default_rng(9)
    warps = 64
    a, b = any_halves(random, warps * 32 * 48, special), any_halves(random, warps * 32 * 56, special)
    c = any_floats(random, warps * 32 * 40, special)
    kernels = [f"{la}_{lb}_row_{m}_{n}" for (m, n), la, lb in itertools.product(SHAPES, ORDERS, ORDERS)]

    def results() -> list[np.ndarray]:
        made = []
        for source, names, sizes in ((WMMA, kernels, (48, 56, 40)), (MMA, ["wide", "narrow", "brain"], ())):
            program = Program(source)
            for name in names:
                out = c.copy()
                program.run(name, warps // 2, 64, a, b, out, *sizes)
                made.append(out)
        return made

    vectors = results()
    monkeypatch.setenv("CUCORE_CPU_W", "1")
    for name, one, other in zip([*kernels, "wide", "narrow", "brain"], vectors, results(), strict=True):
        assert np.array_equal(one, other), name


TILES = """
#include <cuda_fp16.h>
__device__ void load(const __half* from, unsigned (&x)[4]) {
  unsigned p = (unsigned)__cvta_generic_to_shared(from);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(p) : "memory");
}
__device__ void load_transposed(const __half* from, unsigned (&x)[4]) {
  unsigned p = (unsigned)__cvta_generic_to_shared(from);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(p) : "memory");
}
__device__ void add_product(const unsigned (&x)[4], unsigned y0, unsigned y1, float (&c)[4]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}
// Two warps multiply a tile of 16 x 32 through shared memory, and transpose what they read on the way.
extern "C" __global__ void tiles(const __half* a, const __half* b, float* c, int n) {
  __shared__ __align__(16) __half left[16][24], right[2][16][24];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.y * 16, column = blockIdx.x * 32 + warp * 16;
  float low[4] = {}, high[4] = {};
  for (int k = 0; k < n; k += 16) {
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) left[i / 16][i % 16] = a[(row + i / 16) * n + k + i % 16];
    for (int i = lane; i < 256; i += 32) right[warp][i / 16][i % 16] = b[(k + i / 16) * n + column + i % 16];
    __syncthreads();
    unsigned x[4], y[4];
    load(&left[lane % 16][lane / 16 * 8], x);
    load_transposed(&right[warp][lane % 16][lane / 16 * 8], y);
    for (unsigned& word : y)  // and back: no change
      for (int i = 0; i < 2; ++i) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
    add_product(x, y[0], y[1], low);
    add_product(x, y[2], y[3], high);
  }
  float* to = c + row * n + column + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    to[(lane / 4 + i / 2 * 8) * n + i % 2] = low[i];
    to[(lane / 4 + i / 2 * 8) * n + i % 2 + 8] = high[i];
  }
}
"""


def run_tiles() -> None:
    random = np.random.default_rng(12)
    a, b = (random.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    Program(TILES).run("tiles", (2, 4, 1), 64, a, b, c, 64)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_tiles_through_ldmatrix_match_numpy(any_width: str) -> None:
    run_tiles()


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What CUCORE_CPU_REPORT says about kernels that were compiled since."""
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")
    for name in ("CUCORE_CPU_W", "CUCORE_CPU_TIER"):
        monkeypatch.delenv(name, raising=False)
    return lambda: capfd.readouterr().err


def run_wmma(block: int) -> np.ndarray:
    a, b, c = np.ones((4, 32, 48), np.float16), np.ones((4, 32, 56), np.float16), np.zeros((4, 32, 40), np.float32)
    Program(WMMA).run("row_row_row_16_16", 1, block, a, b, c, 48, 56, 40)
    return c[: block // 32, :16, :16]


@ABOUT_VECTOR_CODE
def test_whole_warps_multiply_in_vector_code(report: Callable[[], str]) -> None:
    assert (run_wmma(64) == 16).all()
    text = report()
    assert "W=32" in text and "gathers 0" in text and "scatters 0" in text, text


@ABOUT_VECTOR_CODE
def test_whole_warps_load_tiles_in_vector_code(report: Callable[[], str]) -> None:
    run_tiles()
    text = report()
    assert "W=32" in text, text


@ABOUT_VECTOR_CODE
@pytest.mark.parametrize("kinds", ["memory", "init", "race,sync", "all"])
def test_check_mode_multiplies_on_fibers(kinds: str) -> None:
    code = """
import test_matrix_code as matrix
assert (matrix.run_wmma(64) == 16).all()
matrix.run_tiles()
"""
    removed = ("CUCORE_CPU_W", "CUCORE_CPU_TIER")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment |= {"CUCORE_CHECK": kinds, "CUCORE_CPU_REPORT": "1", "CUCORE_CPU_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert "row_row_row_16_16" in done.stderr and "tiles" in done.stderr, done.stderr
    assert "W=32" not in done.stderr, done.stderr
