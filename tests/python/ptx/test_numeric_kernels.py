# SPDX-License-Identifier: Apache-2.0
"""Numeric kernels: half, fp8, math functions, matrices, random numbers, compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_half_and_bfloat16_functions_match_numpy() -> None:
    program = Program("""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void halves(const float* a, const float* b, __half* h, __nv_bfloat16* f, int* more) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      __half x = __float2half(a[i]), y = __float2half(b[i]);
      h[i] = __hfma(x, y, __hadd(x, y));
      __nv_bfloat16 p = __float2bfloat16(a[i]), q = __float2bfloat16(b[i]);
      f[i] = __hmul(p, q);
      __half2 pair = __floats2half2_rn(a[i], b[i]);
      more[i] = __hgt(x, y) + 2 * __hbgt2(pair, __half2half2(y)) + 4 * (__low2float(__h2div(pair, __half2half2(y))) > 1.0f);
    }
    """)
    a, b = ((random.random(256, np.float32) + 0.5) * 4 for _ in range(2))
    h, f, more = np.zeros(256, np.float16), np.zeros(256, np.uint16), np.zeros(256, np.int32)
    program.run("halves", 2, 128, a, b, h, f, more)
    x, y = a.astype(np.float16), b.astype(np.float16)
    sums = (x + y).astype(np.float64)
    assert np.array_equal(h, (x.astype(np.float64) * y.astype(np.float64) + sums).astype(np.float16))

    def bf16(v: np.ndarray) -> np.ndarray:
        bits = v.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def back(bits: np.ndarray) -> np.ndarray:
        return (bits.astype(np.uint32) << 16).view(np.float32)

    assert np.array_equal(f, bf16(back(bf16(a)) * back(bf16(b))))
    assert np.array_equal(more & 1, x > y)
    assert not (more & 2).any()
    assert np.array_equal(more & 4 != 0, (x / y).astype(np.float16) > 1)


def test_fp8_conversions_match_the_format() -> None:
    program = Program("""
    #include <cuda_fp8.h>
    extern "C" __global__ void small(const float* in, float* e4m3, float* e5m2) {
      int i = threadIdx.x;
      e4m3[i] = float(__nv_fp8_e4m3(in[i]));
      e5m2[i] = float(__nv_fp8_e5m2(in[i]));
    }
    """)
    data = np.array(
        [0, 1, -1.0625, 1.0626, 17, 18.1, 447, 464, 1e6, -1e6, 0.0019, 2e-3, 57344, 3e-5] + [0.3] * 18, np.float32
    )
    e4m3, e5m2 = np.zeros(32, np.float32), np.zeros(32, np.float32)
    program.run("small", 1, 32, data, e4m3, e5m2)
    expected = [0, 1, -1, 1.125, 16, 18, 448, 448, 448, -448, 0.001953125, 0.001953125, 448, 0]
    assert np.array_equal(e4m3[:14], np.array(expected, np.float32))
    expected = [0, 1, -1, 1, 16, 20, 448, 448, 57344, -57344, 0.001953125, 0.001953125, 57344, 3.0517578125e-05]
    assert np.array_equal(e5m2[:14], np.array(expected, np.float32))


def test_math_functions_are_within_their_error_bounds() -> None:
    names32 = [
        "sinf",
        "cosf",
        "tanf",
        "expf",
        "logf",
        "sqrtf",
        "erff",
        "tgammaf",
        "cbrtf",
        "atanf",
        "sinhf",
        "log1pf",
        "exp2f",
        "rsqrtf",
    ]
    names64 = ["sin", "cos", "exp", "log", "erf", "tgamma", "cbrt", "atan", "asin", "log1p", "expm1", "tanh"]
    lines32 = "".join(f"o[{k} * n + i] = {name}(x);" for k, name in enumerate(names32))
    lines64 = "".join(f"o[{k} * n + i] = {name}(x);" for k, name in enumerate(names64))
    program = Program(f"""
    extern "C" __global__ void single(const float* a, float* o, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      float x = a[i];
      {lines32}
    }}
    extern "C" __global__ void both(const double* a, double* o, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      double x = a[i];
      {lines64}
      o[{len(names64)} * n + i] = pow(x, 2.75);
      o[{len(names64) + 1} * n + i] = fmod(100.0, x + 0.01);
    }}
    extern "C" __global__ void huge(const float* a, float* o, const double* b, double* p) {{
      int i = threadIdx.x;
      o[i] = sinf(a[i]);
      p[i] = cos(b[i]);
    }}
    """)
    import math

    def all_of(name: str, values: np.ndarray) -> np.ndarray:
        special = {
            "erf": math.erf,
            "tgamma": math.gamma,
            "rsqrt": lambda v: 1 / math.sqrt(v),
            "atan": math.atan,
            "asin": math.asin,
        }
        function = special.get(name) or getattr(np, name)
        return np.array([function(float(v)) for v in values])

    x = random.random(256) * 0.98 + 0.005
    x32 = x.astype(np.float32) * 3
    out32 = np.zeros((len(names32), 256), np.float32)
    program.run("single", 2, 128, x32, out32, 256)
    for name, row in zip(names32, out32, strict=True):
        assert np.allclose(row, all_of(name[:-1], x32), rtol=2e-6), name
    out = np.zeros((len(names64) + 2, 256))
    program.run("both", 2, 128, x, out, 256)
    for name, row in zip(names64, out, strict=False):
        assert np.allclose(row, all_of(name, x), rtol=4e-15), name
    assert np.allclose(out[-2], x**2.75, rtol=1e-15)
    assert np.allclose(out[-1], np.fmod(100.0, x + 0.01), rtol=1e-12, atol=1e-14)
    far = np.array([1e5, 1e10, 1e20, 3e38, 12345.678, -7e8] + [1.0] * 26)
    sines, cosines = np.zeros(32, np.float32), np.zeros(32)
    program.run("huge", 1, 32, far.astype(np.float32), sines, far, cosines)
    assert np.allclose(sines, np.sin(far.astype(np.float32).astype(np.float64)), atol=2e-7)
    assert np.allclose(cosines, np.cos(far), atol=2e-15)


def test_fast_math_is_within_its_error_bounds() -> None:
    program = Program(
        """
    extern "C" __global__ void fast(const float* a, float* o) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      float x = a[i];
      o[i] = sinf(x) * expf(x) / sqrtf(x + 1.0f) + __powf(x, 1.5f) + __fdividef(1.0f, x) + rsqrtf(x) + logf(x);
    }
    """,
        "--use_fast_math",
    )
    x = (random.random(256) * 3 + 0.1).astype(np.float32)
    out = np.zeros(256, np.float32)
    program.run("fast", 2, 128, x, out)
    d = x.astype(np.float64)
    expected = np.sin(d) * np.exp(d) / np.sqrt(d + 1) + d**1.5 + 1 / d + 1 / np.sqrt(d) + np.log(d)
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_wmma_matrix_product_matches_numpy() -> None:
    program = Program("""
    #include <mma.h>
    #include <cuda_fp16.h>
    using namespace nvcuda;
    extern "C" __global__ void product(const half* a, const half* b, float* c, int n) {
      int row = blockIdx.y * 16, col = (blockIdx.x * 2 + threadIdx.x / 32) * 16;
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
      wmma::fill_fragment(fc, 0.5f);
      for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + col * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
      }
      for (int k = 0; k < fc.num_elements; k++) fc.x[k] *= 2;
      wmma::store_matrix_sync(c + row * n + col, fc, n, wmma::mem_row_major);
    }
    """)
    a, b = (random.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    program.run("product", (2, 4, 1), 64, a, b, c, 64)
    assert np.array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32).T + 0.5))


def test_wmma_of_doubles_matches_numpy() -> None:
    """Its instructions have an explicit rounding mode."""
    program = Program("""
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void product(const double* a, const double* b, double* c) {
      wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
      wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
      wmma::fill_fragment(fc, 0.5);
      for (int k = 0; k < 16; k += 4) {
        wmma::load_matrix_sync(fa, a + k, 16);
        wmma::load_matrix_sync(fb, b + k, 16);
        wmma::mma_sync(fc, fa, fb, fc);
      }
      wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
    }
    """)
    assert b"f64.f64.f64.f64.rn" in program.ptx
    a, b, c = random.random((8, 16)), random.random((8, 16)), np.zeros((8, 8))
    program.run("product", 1, 32, a, b, c)
    np.testing.assert_allclose(c, a @ b.T + 0.5, rtol=1e-14)


def test_128_bit_integer_arithmetic_matches_python() -> None:
    """NVRTC's division uses chains of sub.cc, subc and addc: an addition reads the carry of a subtraction."""
    program = Program(
        """
    typedef unsigned long long u64;
    typedef unsigned __int128 u128;
    __device__ void put(u64* out, u128 value) { out[0] = (u64)value; out[1] = (u64)(value >> 64); }
    extern "C" __global__ void numbers(const u64* a, const u64* b, u64* out, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      u128 x = ((u128)a[2 * i + 1] << 64) | a[2 * i], y = ((u128)b[2 * i + 1] << 64) | b[2 * i];
      if (y == 0) y = 1;
      u64* to = out + 10 * i;
      put(to, x / y);
      put(to + 2, x % y);
      put(to + 4, x * y);
      put(to + 6, (u128)((__int128)x >> (b[2 * i] & 127)));
      put(to + 8, (u128)((__int128)x / (__int128)y));
    }
    """,
        "--device-int128",
    )
    n = 300
    a, b = (random.integers(0, 1 << 64, 2 * n, dtype=np.uint64) for _ in range(2))
    b[1::4], a[81::7], b[1:40:2] = 0, 0, 0
    b[:40] &= np.uint64(0xFF)
    out = np.zeros((n, 5, 2), np.uint64)
    program.run("numbers", 3, 128, a, b, out, n)

    def signed(value: int) -> int:
        return value - (1 << 128) if value >> 127 else value

    for i in range(n):
        x, y = (int(v[2 * i]) | int(v[2 * i + 1]) << 64 for v in (a, b))
        y = y or 1
        size = abs(signed(x)) // abs(signed(y))
        ratio = size if (signed(x) < 0) == (signed(y) < 0) else -size
        wanted = [x // y, x % y, x * y, signed(x) >> (int(b[2 * i]) & 127), ratio]
        assert [int(v[0]) | int(v[1]) << 64 for v in out[i]] == [v % (1 << 128) for v in wanted], (hex(x), hex(y))


def test_philox_random_numbers_match_the_reference() -> None:
    program = Program("""
    #include <curand_kernel.h>
    extern "C" __global__ void numbers(unsigned* bits, float* normal) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      curandStatePhilox4_32_10_t state;
      curand_init(1234ull, i, 0, &state);
      bits[i] = curand(&state);
      normal[i] = curand_normal(&state);
    }
    """)
    bits, normal = np.zeros(4096, np.uint32), np.zeros(4096, np.float32)
    program.run("numbers", 32, 128, bits, normal)

    def philox(key: int, thread: int) -> int:
        k0, k1, c = key & 0xFFFFFFFF, key >> 32, [0, 0, thread, 0]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(q >> 32) ^ c[1] ^ k0, q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k1, p & 0xFFFFFFFF]
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        return c[0]

    assert [int(b) for b in bits[:64]] == [philox(1234, i) for i in range(64)]
    assert abs(normal.mean()) < 0.06 and abs(normal.std() - 1) < 0.05
