# SPDX-License-Identifier: Apache-2.0
"""Structures, indices that are divided, gathers and scatters under masks, and saturating conversions, with any number of lanes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.program import Program

N = 1000  # no multiple of a width: the last groups are partial

STRUCTURES = r"""
extern "C" __global__ void bytes(const uchar4* in, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i].x + 3 * in[i].z;
}
extern "C" __global__ void pairs(const float2* in, float2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_float2(in[i].y, 2 * in[i].x);
}
extern "C" __global__ void triples(const float3* in, float3* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_float3(in[i].z, in[i].x, in[i].y);
}
extern "C" __global__ void one_of_three(const float3* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i].y;
}
extern "C" __global__ void quadruples(const double4* in, double4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_double4(in[i].w, in[i].z, in[i].y, in[i].x);
}
// The store to the first element comes between loads of the same structure.
extern "C" __global__ void in_place(short4* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  short first = data[i].x;
  data[i].x = data[i].y;
  data[i].y = data[i].z;
  data[i].z = first;
}
// Only two of four elements are written; the others must stay.
extern "C" __global__ void some(int4* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  data[i].y = i;
  data[i].w = -i;
}
"""

BLOCK, GRID = 96, -(-N // 96)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.arange(1, int(np.prod(shape)) + 1).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("kernel", "data", "expected"),
    [
        ("bytes", numbers(N, 4, dtype=np.uint8), lambda x: x[:, 0] + 3 * x[:, 2]),
        ("pairs", numbers(N, 2), lambda x: np.stack([x[:, 1], 2 * x[:, 0]], 1)),
        ("triples", numbers(N, 3), lambda x: x[:, [2, 0, 1]]),
        ("one_of_three", numbers(N, 3), lambda x: x[:, 1].copy()),
        ("quadruples", numbers(N, 4, dtype=np.float64), lambda x: x[:, ::-1].copy()),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_elements_of_structures_reach_their_lanes(
    kernel: str, data: np.ndarray, expected: object, any_width: str
) -> None:
    want = expected(data)  # type: ignore[operator]
    out = np.zeros_like(want)
    Program(STRUCTURES).run(kernel, GRID, BLOCK, data, out, N)
    np.testing.assert_array_equal(out, want)


def test_structures_are_changed_in_place(any_width: str) -> None:
    data = numbers(N, 4, dtype=np.int16)
    want = data[:, [1, 2, 0, 3]]
    Program(STRUCTURES).run("in_place", GRID, BLOCK, data, N)
    np.testing.assert_array_equal(data, want)


def test_elements_that_are_not_written_stay(any_width: str) -> None:
    data = numbers(N, 4, dtype=np.int32)
    want = data.copy()
    want[:, 1], want[:, 3] = np.arange(N), -np.arange(N)
    Program(STRUCTURES).run("some", GRID, BLOCK, data, N)
    np.testing.assert_array_equal(data, want)


DIVISIONS = r"""
extern "C" __global__ void signed_32(const float* table, float* out, int* parts, int by, int start, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int q = (i + start) / by, r = (i + start) % by;
  parts[2 * i] = q;
  parts[2 * i + 1] = r;
  out[i] = table[(unsigned)(q * 31 + r) % 4096u];
}
extern "C" __global__ void unsigned_32(unsigned* parts, unsigned by, unsigned start, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  parts[2 * i] = (i + start) / by;
  parts[2 * i + 1] = (i + start) % by;
}
extern "C" __global__ void after_a_barrier(int* out, int by, int n) {
  __shared__ int rests[96];
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / by, column = i % by;
  rests[threadIdx.x] = column;
  __syncthreads();
  if (i < n) out[i] = row * 1000 + rests[95 - threadIdx.x] + column;
}
"""


@pytest.mark.parametrize("start", [0, -500, 2**31 - 600, -(2**31)])
@pytest.mark.parametrize("by", [1, 2, 3, 7, 16, 31, 64, 100, 999, 2**31 - 1, -1, -5, -(2**31), 0])
def test_signed_indices_are_divided(by: int, start: int, any_width: str) -> None:
    table = numbers(4096)
    out, parts = np.zeros(N, np.float32), np.zeros((N, 2), np.int32)
    Program(DIVISIONS).run("signed_32", GRID, BLOCK, table, out, parts, by, start, N)
    x = (np.arange(N, dtype=np.int64) + start + 2**31) % 2**32 - 2**31  # wraps
    q = -np.ones(N, np.int64) if by == 0 else np.sign(x) * np.sign(by) * (np.abs(x) // abs(by))
    r = x - q * by  # as NVRTC computes it, also for 0
    q = (q + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(parts, np.stack([q, r], 1))
    np.testing.assert_array_equal(out, table[(q * 31 + r) % 2**32 % 4096])


@pytest.mark.parametrize("start", [0, 2**32 - 600])
@pytest.mark.parametrize("by", [1, 3, 16, 100, 2**31, 2**32 - 1, 0])
def test_unsigned_indices_are_divided(by: int, start: int, any_width: str) -> None:
    parts = np.zeros((N, 2), np.uint32)
    Program(DIVISIONS).run("unsigned_32", GRID, BLOCK, parts, ctypes.c_uint(by), ctypes.c_uint(start), N)
    x = (np.arange(N, dtype=np.int64) + start) % 2**32
    q = np.full(N, 2**32 - 1) if by == 0 else x // by
    want = np.stack([q, x - q * by], 1)
    np.testing.assert_array_equal(parts, want)


@pytest.mark.parametrize("by", [5, 32, 96, 700])
def test_quotients_live_across_barriers(by: int, any_width: str) -> None:
    out = np.zeros(N, np.int32)
    Program(DIVISIONS).run("after_a_barrier", GRID, BLOCK, out, by, N)
    i = np.arange(GRID * BLOCK)
    rests = (i % by).reshape(-1, BLOCK)[:, ::-1].ravel()
    np.testing.assert_array_equal(out, (i // by * 1000 + rests + i % by)[:N])


ADDRESSES = r"""
extern "C" __global__ void apart(const int* where, const float* in, float* out, const int* on, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = -1;
  if (on[i]) v = in[where[i]] + in[where[i] + 3];
  if (on[i] > 1) out[where[i]] = v;
  else if (!on[i]) out[n + i] = v;
}
// A loop that lanes leave one by one, with addresses that grow from lane to lane by different steps.
extern "C" __global__ void walks(const int* rows, const double* in, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (int k = rows[i]; k < rows[i + 1]; ++k) sum += in[k];
  out[i] = sum;
}
extern "C" __global__ void counts(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  for (int k = threadIdx.x; k < 256; k += blockDim.x) local[k] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  for (int k = threadIdx.x; k < 256; k += blockDim.x) atomicAdd(&bins[k], local[k]);
}
"""


def test_gathers_and_scatters_under_masks_access_their_lanes_only(any_width: str) -> None:
    random = np.random.default_rng(1)
    where = random.permutation(N).astype(np.int32)
    on = random.integers(0, 3, N).astype(np.int32)
    where[on == 0] = 1 << 30  # an address that faults
    data, out = numbers(N + 3), np.zeros(2 * N, np.float32)
    Program(ADDRESSES).run("apart", GRID, BLOCK, where, data, out, on, N)
    want = np.zeros(2 * N, np.float32)
    twice, never = on == 2, on == 0
    want[where[twice]] = data[where[twice]] + data[where[twice] + 3]
    want[N:][never] = -1
    np.testing.assert_array_equal(out, want)


def test_lanes_with_different_trip_counts_load_their_elements(any_width: str) -> None:
    rows = np.concatenate([[0], np.cumsum(np.random.default_rng(2).integers(0, 9, N))]).astype(np.int32)
    data, out = numbers(int(rows[-1]) + 1, dtype=np.float64), np.zeros(N)
    Program(ADDRESSES).run("walks", GRID, BLOCK, rows, data, out, N)
    np.testing.assert_array_equal(out, [data[a:b].sum() for a, b in pairwise(rows)])


@pytest.mark.parametrize("grid", [1, 3])
def test_shared_atomics_of_loaded_bytes_count_all_of_them(grid: int, any_width: str) -> None:
    data = np.random.default_rng(3).integers(0, 256, 5000, dtype=np.uint8)
    bins = np.zeros(256, np.uint32)
    Program(ADDRESSES).run("counts", grid, BLOCK, data, bins, data.size)
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))


CONVERSIONS = r"""
template <typename F, typename I> __device__ void all(const F* in, I* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (I)in[i];
}
#define KERNEL(name, F, I) extern "C" __global__ void name(const F* in, I* out, int n) { all<F, I>(in, out, n); }
KERNEL(f32_s32, float, int)
KERNEL(f32_u32, float, unsigned)
KERNEL(f64_s32, double, int)
KERNEL(f64_u32, double, unsigned)
KERNEL(f32_u8, float, unsigned char)
KERNEL(f32_s64, float, long long)
"""


@pytest.mark.parametrize("kernel", ["f32_s32", "f32_u32", "f64_s32", "f64_u32", "f32_s64"])
def test_conversions_to_integers_saturate(kernel: str, any_width: str) -> None:
    source, target = kernel.split("_")
    dtype = {"f32": np.float32, "f64": np.float64}[source]
    limits = np.iinfo({"s32": np.int32, "u32": np.uint32, "s64": np.int64}[target])
    edges = [
        0,
        -0.0,
        0.5,
        -0.5,
        0.999,
        -0.999,
        1.5,
        -1.5,
        2.0**31,
        -(2.0**31),
        2.0**32,
        2.0**63,
        -(2.0**63),
        1e30,
        -1e30,
    ]
    around = [np.nextafter(dtype(e), dtype(to)) for e in edges for to in (np.inf, -np.inf)]
    x = np.array([*edges, *around, np.inf, -np.inf, *np.linspace(-1e5, 1e5, 300)], dtype)
    out = np.zeros(x.size, limits.dtype)
    Program(CONVERSIONS).run(kernel, -(-x.size // BLOCK), BLOCK, x, out, x.size)
    want = [
        min(max(int(v), limits.min), limits.max) if np.isfinite(v) else limits.max if v > 0 else limits.min for v in x
    ]
    assert out.tolist() == want


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's code")
def test_code_without_avx512_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the tests above, and those of min and max and of narrow numbers, in a process whose code does not use AVX-512."""
    if "CUCORE_CPU_FEATURES" in os.environ:
        pytest.skip("runs in such a process already")
    if " avx512f " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX-512")
    here = Path(__file__)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        str(here),
        str(here.with_name("test_min_max.py")),
        str(here.with_name("test_narrow_numbers.py")),
    ]
    done = subprocess.run(command, env=os.environ | {"CUCORE_CPU_FEATURES": "-avx512f"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
