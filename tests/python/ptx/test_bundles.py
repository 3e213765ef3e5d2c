"""Every bundle of instructions that real kernels need (docs/design/ptx.md), in a kernel as CUDA programmers write it: the PTX that
NVRTC makes of it uses the bundle's families, and running it gives the right answer."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Bundle:
    name: str  # as docs/design/ptx.md calls it
    uses: str  # families, as patterns of the PTX text
    source: str
    check: Callable[[Program], None]
    options: tuple[str, ...] = ()
    arch: str = "compute_90"


BUNDLES: list[Bundle] = []


def bundle(
    name: str, uses: str, source: str, *options: str, arch: str = "compute_90"
) -> Callable[[Callable[[Program], None]], Callable[[Program], None]]:
    def register(check: Callable[[Program], None]) -> Callable[[Program], None]:
        BUNDLES.append(Bundle(name, uses, source, check, options, arch))
        return check

    return register


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@bundle(
    "integer, control flow, global memory, parameters",
    r"mul\.wide\.|mul\.hi\.|mad\.lo\.|div\.[us]32|rem\.[us]|shl\.b|shr\.|popc\.|clz\.|brev\.|prmt\.|selp\.|m(in|ax)\.s|abs\.s|neg\.s"
    r"|ld\.global\.nc|bra|setp\.|cvta\.|addc\.|shf\.|lop3\.|bfe\.|bfi\.|bfind\.|bmsk\.",
    r"""
struct Settings { int scale; short bias; long long big; };
extern "C" __global__ void integers(const int* __restrict__ in, long long* out, Settings s, unsigned __int128 wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = __ldg(in + i), b = in[(i + 1) % n];
  unsigned u = a;
  long long* o = out + i * 20;
  o[0] = (long long)a * b;
  o[1] = __mulhi(a, b);
  o[2] = b ? a / b : 0;
  o[3] = b ? a % b : 0;
  o[4] = u / 10u + u % 7u;
  o[5] = __popc(a) + 100 * __clz(a) + 10000 * __clzll((long long)a * a);
  o[6] = (int)__brev(u);
  o[7] = (int)__byte_perm(a, b, 0x5140);
  o[8] = max(min(a, 100000), s.scale) + abs(a >> 1) + (1 << (i & 15));
  o[9] = a * s.scale + s.bias;
  o[10] = (int)__funnelshift_l(a, b, 13);
  unsigned __int128 sum = wide + (unsigned __int128)u * u;
  o[11] = (long long)(sum >> 64);
  o[12] = (long long)sum;
  int field, found, mask, logic, inserted;
  asm("bfe.s32 %0, %1, 5, 9;" : "=r"(field) : "r"(a));
  asm("bfi.b32 %0, %1, %2, 3, 8;" : "=r"(inserted) : "r"(b), "r"(a));
  asm("bfind.u32 %0, %1;" : "=r"(found) : "r"(a));
  asm("bmsk.clamp.b32 %0, %1, 7;" : "=r"(mask) : "r"(i & 15));
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(logic) : "r"(a), "r"(b), "r"(i));
  o[13] = field;
  o[14] = inserted;
  o[15] = found;
  o[16] = mask + (long long)min(u, 77u);
  o[17] = logic;
  long long t = s.big;
  for (int k = 0; k < (i & 7); ++k) t = (t & 1) ? 3 * t + 1 : t / 2;
  o[18] = t;
  o[19] = a > b ? -a : ~b;
}
""",
    "--device-int128",
)
def _(program: Program) -> None:
    class Settings(ctypes.Structure):
        _fields_ = [("scale", ctypes.c_int), ("bias", ctypes.c_short), ("big", ctypes.c_longlong)]

    class Wide(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    n = 200
    values = ((np.arange(n, dtype=np.int64) * 2654435761) % (1 << 32)).astype(np.uint32).view(np.int32)
    values[:6] = [0, 1, -1, 2**31 - 1, -(2**31), 7]
    out = np.zeros((n, 20), np.int64)
    program.run("integers", 2, 128, values.copy(), out, Settings(-3, 11, 27), Wide(2**64 - 5, 9), n)
    for i in range(n):
        a, b = int(values[i]), int(values[(i + 1) % n])
        u, v = a % 2**32, b % 2**32
        square = (a * a) % 2**64
        quotient = signed(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else 0
        both = a % 2**32 | (v << 32)
        bytes_ = [(both >> 8 * k) & 255 for k in (0, 4, 1, 5)]
        wide = (9 << 64 | 2**64 - 5) + u * u
        field = (a >> 5) & 511
        t = 27
        for _k in range(i & 7):
            t = 3 * t + 1 if t & 1 else t // 2
        start = i & 15
        wanted = [
            a * b, (a * b) >> 32, quotient, a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else 0,
            u // 10 + u % 7, u.bit_count() + 100 * (32 - u.bit_length()) + 10000 * (64 - square.bit_length()),
            signed(int(f"{u:032b}"[::-1], 2)), signed(sum(x << 8 * k for k, x in enumerate(bytes_))),
            max(min(a, 100000), -3) + abs(a >> 1) + (1 << (i & 15)), signed(a * -3 + 11), signed(v << 13 | u >> 19),
            signed(wide >> 64, 64), signed(wide, 64), field - 512 if field >> 8 else field,
            signed((u & ~(255 << 3)) | ((v & 255) << 3)), u.bit_length() - 1, signed(((1 << 7) - 1) << start) + min(u, 77), signed(u ^ v ^ i), t,
            signed(-a) if a > b else ~b,
        ]  # fmt: skip
        assert [int(x) for x in out[i]] == wanted, (i, a, b)


@bundle(
    "f32 arithmetic and conversions",
    r"add\.f32|mul\.f32|fma\.rn\.f32|div\.rn\.f32|rcp\.rn\.f32|sqrt\.rn\.f32|ex2\.approx|lg2\.approx|rsqrt\.approx|cvt\.rn\.f32\.s32"
    r"|cvt\.rzi\.s32\.f32|copysign\.f32|abs\.f32|neg\.f32|min\.f32|max\.f32|setp\.[a-z]+\.f32|fma\.r[mp]\.f32|cvt\.rpi|sin\.approx|cos\.approx",
    r"""
extern "C" __global__ void floats(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = x[n - 1 - i];
  float* o = out + i * 16;
  o[0] = a + b * 2.0f;
  o[1] = a / b;
  o[2] = 1.0f / a;
  o[3] = sqrtf(fabsf(a));
  o[4] = rsqrtf(fabsf(b));
  o[5] = expf(a);
  o[6] = __logf(fabsf(b) + 1.0f);
  o[7] = sinf(a * 100.0f);
  o[8] = __sinf(a) + __cosf(b);
  o[9] = (float)(int)(a * 1000.0f) + ceilf(b);
  o[10] = copysignf(a, -b) - fminf(a, b) * fmaxf(a, b);
  o[11] = __fmaf_rd(a, b, 0.1f) - __fmaf_ru(a, b, 0.1f);
  o[12] = powf(fabsf(a), 1.5f);
  o[13] = a > b ? -a : rintf(b);
  o[14] = fmodf(a, 0.3f);
  o[15] = __uint_as_float(__float_as_uint(a) ^ 0x80000000u);
}
""",
)
def _(program: Program) -> None:
    n = 300
    x = np.linspace(-7.9, 8.3, n, dtype=np.float32)
    out = np.zeros((n, 16), np.float32)
    program.run("floats", 3, 128, x, out, n)
    a, b = x.astype(np.float64), x[::-1].astype(np.float64)
    wanted = [
        a + b * 2, a / b, 1 / a, np.sqrt(abs(a)), 1 / np.sqrt(abs(b)), np.exp(a), np.log(abs(b) + 1),
        np.sin((x * np.float32(100)).astype(np.float64)), np.sin(a) + np.cos(b),
        np.trunc((x * np.float32(1000)).astype(np.float64)) + np.ceil(b), np.copysign(a, -b) - np.minimum(a, b) * np.maximum(a, b),
        np.zeros(n), abs(a) ** 1.5, np.where(a > b, -a, np.rint(b)), np.fmod(a, np.float64(np.float32(0.3))), -a,
    ]  # fmt: skip
    for k, column in enumerate(wanted):
        np.testing.assert_allclose(out[:, k], column, rtol=3e-6, atol=2e-6 if k != 11 else 1e-5, err_msg=f"column {k}")
    assert (out[:, 11] <= 0).all() and (out[:, 11] < 0).any()


@bundle(
    "shared memory + bar.sync/red",
    r"st\.shared|ld\.shared|bar\.sync|bar(rier)?\.(cta\.)?red\.(popc|and|or)",
    r"""
extern "C" __global__ void shares(const int* in, int* out) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  tile[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int step = 128; step; step /= 2) {
    if (t < step) tile[t] += tile[t + step];
    __syncthreads();
  }
  int odd = __syncthreads_count(in[blockIdx.x * 256 + t] & 1), all = __syncthreads_and(t < 256), any = __syncthreads_or(t == 300);
  if (t == 0) out[blockIdx.x * 4] = tile[0], out[blockIdx.x * 4 + 1] = odd, out[blockIdx.x * 4 + 2] = all, out[blockIdx.x * 4 + 3] = any;
}
""",
)
def _(program: Program) -> None:
    values = (np.arange(1024, dtype=np.int32) * 37) % 101
    out = np.zeros((4, 4), np.int32)
    program.run("shares", 4, 256, values, out)
    parts = values.reshape(4, 256)
    assert out[:, 0].tolist() == parts.sum(1).tolist()
    assert out[:, 1].tolist() == (parts & 1).sum(1).tolist()
    assert (out[:, 2] != 0).all() and (out[:, 3] == 0).all()


@bundle(
    "warp: shfl vote match redux activemask laneid",
    r"shfl\.sync\.bfly|shfl\.sync\.down|shfl\.sync\.up|shfl\.sync\.idx|vote\.sync\.ballot|vote\.sync\.any|vote\.sync\.all|vote\.sync\.uni"
    r"|match\.any\.sync|match\.all\.sync|redux\.sync|activemask|%laneid|%lanemask_lt|bar\.warp\.sync",
    r"""
extern "C" __global__ void warps(const int* in, int* out) {
  int t = threadIdx.x, v = in[t], lane, below;
  int* o = out + t * 12;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  int sum = v;
  for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  o[0] = sum;
  o[1] = __shfl_down_sync(~0u, v, 3);
  o[2] = __shfl_up_sync(~0u, v, 2, 8);
  o[3] = __shfl_sync(~0u, v, lane * 5 & 31);
  o[4] = __ballot_sync(~0u, v & 1);
  o[5] = __any_sync(~0u, v > 90) + 2 * __all_sync(~0u, v >= 0) + 4 * __uni_sync(~0u, v & 1);
  o[6] = __match_any_sync(~0u, v % 5);
  int same;
  o[7] = __match_all_sync(~0u, v / 1000, &same) + same;
  o[8] = __reduce_add_sync(~0u, v) + __reduce_max_sync(~0u, v) - (int)__reduce_or_sync(~0u, (unsigned)v);
  __syncwarp();
  o[9] = __popc(__ballot_sync(~0u, v % 3 == 0) & below);
  o[10] = lane;
  o[11] = 0;
  if (v & 2) o[11] = __popc(__activemask());
}
""",
)
def _(program: Program) -> None:
    values = ((np.arange(64, dtype=np.int64) * 71) % 97).astype(np.int32)
    out = np.zeros((64, 12), np.int32)
    program.run("warps", 1, 64, values, out)
    for w in (0, 32):
        v = [int(x) for x in values[w : w + 32]]
        ballot = signed(sum((x & 1) << k for k, x in enumerate(v)))
        some = sum(1 for x in v if x & 2)
        for lane in range(32):
            row = [int(x) for x in out[w + lane]]
            votes = int(max(v) > 90) + 2 + 4 * int(len({x & 1 for x in v}) == 1)
            total = sum(v) + max(v) - reduce(int.__or__, v)
            assert row[:4] == [
                sum(v),
                v[lane + 3] if lane < 29 else v[lane],
                v[lane - 2] if lane % 8 >= 2 else v[lane],
                v[lane * 5 % 32],
            ]
            assert row[4:6] == [ballot, votes]
            assert row[6] == signed(sum(1 << k for k, x in enumerate(v) if x % 5 == v[lane] % 5))
            assert row[7] == -1 + 1 and row[8] == total
            assert row[9] == sum(1 for x in v[:lane] if x % 3 == 0) and row[10] == lane
            assert 1 <= row[11] <= some if v[lane] & 2 else row[11] == 0


@bundle(
    "atomics",
    r"atom\.(global\.)?add\.u32|atom\.shared\.add|atom\.(global\.)?add\.f32|atom\.(global\.)?add\.f64|atom\.[a-z.]*cas\.b32|atom\.(global\.)?inc"
    r"|atom\.(global\.)?dec|atom\.(global\.)?or|atom\.(global\.)?and|atom\.(global\.)?xor|atom\.(global\.)?min|atom\.(global\.)?max|atom\.(global\.)?exch"
    r"|atom\.[a-z.]*add\.noftz\.f16|red\.",
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void atomics(unsigned* w, float* f, double* d, __half* h, unsigned* order) {
  __shared__ unsigned count, low;
  if (threadIdx.x == 0) count = 0, low = ~0u;
  __syncthreads();
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&count, 1u);
  atomicMin(&low, i);
  order[i] = atomicAdd(&w[0], 2u);
  atomicMax((int*)&w[1], (int)i - 100);
  atomicMin((int*)&w[2], -(int)i);
  atomicOr(&w[3], 1u << (i & 31));
  atomicAnd(&w[4], ~(1u << (i & 7)));
  atomicXor(&w[5], i);
  atomicInc(&w[6], 9u);
  atomicDec(&w[7], 9u);
  unsigned old = w[8], seen;
  do { seen = old; old = atomicCAS(&w[8], seen, seen + 3); } while (old != seen);
  atomicExch(&w[9], 77u);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __float2half(1.0f));
  asm volatile("red.global.add.u32 [%0], 5;" ::"l"(w + 10) : "memory");
  atomicAdd((unsigned long long*)(w + 12), 1ull << 33);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&w[11], count + low);
}
""",
)
def _(program: Program) -> None:
    n = 256
    w = np.zeros(14, np.uint32)
    w[4] = 0xFFFFFFFF
    f, d, h, order = np.zeros(1, np.float32), np.zeros(1), np.zeros(1, np.float16), np.zeros(n, np.uint32)
    program.run("atomics", 4, 64, w, f, d, h, order)
    xor = 0
    inc = dec = 0
    for i in range(n):
        xor ^= i
        inc = 0 if inc >= 9 else inc + 1
        dec = 9 if dec == 0 or dec > 9 else dec - 1
    assert w[:12].tolist() == [
        2 * n, n - 101, 2**32 - (n - 1), 0xFFFFFFFF, 0xFFFFFF00, xor, inc, dec, 3 * n, 77, 5 * n, 256 + 64 + 128 + 192,
    ]  # fmt: skip
    assert w[12:].view(np.uint64)[0] == n << 33
    assert (f[0], d[0], h[0]) == (n / 2, n / 4, n)
    assert sorted(order.tolist()) == list(range(0, 2 * n, 2))


@bundle(
    "f64 arithmetic and conversions",
    r"add\.f64|mul\.f64|fma\.rn\.f64|div\.rn\.f64|rcp\.rn\.f64|sqrt\.rn\.f64|cvt\.rn\.f64\.s32|cvt\.rzi\.[su]\d+\.f64|cvt\.rn\.f32\.f64"
    r"|cvt\.f64\.f32|abs\.f64|neg\.f64|setp\.[a-z]+\.f64|m(in|ax)\.f64|add\.r[zmp]\.f64",
    r"""
extern "C" __global__ void doubles(const double* x, const float* y, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double a = x[i], b = y[i];
  double* o = out + i * 10;
  o[0] = a * b + i;
  o[1] = a / b;
  o[2] = 1.0 / a;
  o[3] = sqrt(fabs(a));
  o[4] = exp(a) + log(fabs(b) + 1) * sin(a) - pow(fabs(b), 0.7);
  o[5] = (double)(long long)(a * 1e6) + (double)(float)a;
  o[6] = fmin(a, b) * fmax(a, -b);
  o[7] = a > b ? -a : rsqrt(fabs(b) + 1);
  o[8] = __dadd_rz(a, b) - __dadd_ru(a, b);
  o[9] = floor(a) + (unsigned)fabs(b);
}
""",
)
def _(program: Program) -> None:
    n = 100
    x, y = np.linspace(-5.3, 6.1, n), np.linspace(3.7, -9.2, n, dtype=np.float32)
    out = np.zeros((n, 10))
    program.run("doubles", 1, 128, x, y, out, n)
    a, b = x, y.astype(np.float64)
    wanted = [
        a * b + np.arange(n), a / b, 1 / a, np.sqrt(abs(a)), np.exp(a) + np.log(abs(b) + 1) * np.sin(a) - abs(b) ** 0.7,
        np.trunc(a * 1e6) + a.astype(np.float32), np.minimum(a, b) * np.maximum(a, -b), np.where(a > b, -a, 1 / np.sqrt(abs(b) + 1)),
        np.zeros(n), np.floor(a) + np.trunc(abs(b)),
    ]  # fmt: skip
    for k, column in enumerate(wanted):
        np.testing.assert_allclose(out[:, k], column, rtol=1e-14, atol=1e-14, err_msg=f"column {k}")


@bundle(
    "f16/bf16/fp8 arithmetic and conversions",
    r"cvt\.f32\.f16|cvt\.rn\.f16\.f32|add\.f16|mul\.f16|fma\.rn\.f16|sub\.f16|setp\.[a-z]+\.f16|cvt\.rn\.bf16\.f32|add\.bf16|fma\.rn\.bf16"
    r"|cvt\.[a-z.]*e4m3x2|cvt\.[a-z.]*f16x2\.e5m2x2|max\.f16|abs\.bf16|neg\.f16",
    r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void halves(const float* x, float* out) {
  int i = threadIdx.x;
  float* o = out + i * 8;
  __half a = __float2half(x[i]), b = __float2half(x[i] * 0.5f + 1);
  o[0] = __half2float(__hfma(a, b, a));
  o[1] = __half2float(__hsub(__hmul(a, b), __hadd(a, b)));
  __half2 p = __halves2half2(a, b), q = __hmax2(p, __hneg2(p));
  o[2] = __low2float(q) + __high2float(__h2div(q, __float2half2_rn(2.0f)));
  o[3] = __hlt(a, b) ? 1.0f : __half2int_rn(b);
  __nv_bfloat16 c = __float2bfloat16(x[i]), d = __float2bfloat16(x[i] + 2);
  o[4] = __bfloat162float(__hfma(c, d, __habs(c)));
  o[5] = __bfloat162float(__hadd(c, d));
  o[6] = float(__nv_fp8_e4m3(x[i]));
  o[7] = float(__nv_fp8_e5m2(x[i]));
}
""",
)
def _(program: Program) -> None:
    x = (np.arange(64, dtype=np.float32) - 32) / 4
    out = np.zeros((64, 8), np.float32)
    program.run("halves", 1, 64, x, out)
    a, b = x.astype(np.float16), (x * np.float32(0.5) + 1).astype(np.float16)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(out[:, 0], (a64 * b64 + a64).astype(np.float16))
    np.testing.assert_array_equal(out[:, 1], a * b - (a + b))
    np.testing.assert_array_equal(out[:, 2], abs(a64) + abs(b64) / 2)
    np.testing.assert_array_equal(out[:, 3], np.where(a < b, 1, np.rint(b64)))
    np.testing.assert_array_equal(out[:, 4], bf16((x * (x + 2) + abs(x)).astype(np.float64)))
    np.testing.assert_array_equal(out[:, 5], bf16((2 * x + 2).astype(np.float64)))
    for column, bits in ((6, 3), (7, 2)):
        exponent = np.floor(np.log2(np.maximum(abs(x), 2.0**-6)))
        np.testing.assert_array_equal(out[:, column], np.rint(x / 2.0 ** (exponent - bits)) * 2.0 ** (exponent - bits))


def bf16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (
        (((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)) << np.uint64(16))
        .astype(np.uint32)
        .view(np.float32)
    )


@bundle(
    "local memory and real calls",
    r"\.local|st\.local|ld\.local|call(\.uni)? |st\.param|\.callprototype",
    r"""
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
typedef int (*Function)(int);
__device__ Function table[2] = {twice, square};
extern "C" __global__ void calls(const int* in, int* out) {
  int i = threadIdx.x, history[16];
  for (int k = 0; k < 16; ++k) history[k] = in[(i + k) % 64];
  int at = in[i] & 15;
  out[i * 3] = history[at] + history[(at * 7) & 15];
  out[i * 3 + 1] = table[i & 1](in[i]);
  out[i * 3 + 2] = fibonacci(i % 12);
}
""",
)
def _(program: Program) -> None:
    values = (np.arange(64, dtype=np.int32) * 13) % 59
    out = np.zeros((64, 3), np.int32)
    program.run("calls", 1, 64, values, out)
    fibonacci = [0, 1]
    while len(fibonacci) < 12:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    for i in range(64):
        v = int(values[i])
        history = [int(values[(i + k) % 64]) for k in range(16)]
        assert out[i].tolist() == [history[v & 15] + history[v * 7 & 15], v * v if i & 1 else 2 * v, fibonacci[i % 12]]


@bundle(
    "griddepcontrol (no-op off-GPU)",
    r"griddepcontrol\.wait|griddepcontrol\.launch_dependents",
    r"""
extern "C" __global__ void dependent(int* data) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  data[threadIdx.x] = data[threadIdx.x] * 3 + 1;
  asm volatile("griddepcontrol.launch_dependents;");
}
""",
)
def _(program: Program) -> None:
    data = np.arange(32, dtype=np.int32)
    program.run("dependent", 1, 32, data)
    program.run("dependent", 1, 32, data)
    assert data.tolist() == [(i * 3 + 1) * 3 + 1 for i in range(32)]


@bundle(
    "fences, volatile, acquire/release, generic+const loads, clocks",
    r"ld\.volatile|st\.volatile|membar|fence\.|ld\.acquire|st\.release|ld\.relaxed|nanosleep|ld\.const|prefetch|%clock64|%globaltimer|exit"
    r"|%dynamic_smem_size|ld\.(u32|b32|s32) ",
    r"""
#include <cuda/atomic>
__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int* choose(int* a, int* b, int which) { return which ? a : b; }
extern "C" __global__ void orders(int* data, volatile int* flag, unsigned* done, long long* clocks, int which) {
  extern __shared__ int room[];
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = table[t & 7] + t;
    __threadfence();
    __syncthreads();
    if (t == 0) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_device>(*done).store(1, cuda::std::memory_order_release);
      *flag = 5;
    }
  } else {
    if (t == 0) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_device> ready(*done);
      while (ready.load(cuda::std::memory_order_relaxed) == 0) __nanosleep(100);
      cuda::atomic_thread_fence(cuda::std::memory_order_acq_rel, cuda::thread_scope_device);
      while (ready.load(cuda::std::memory_order_acquire) == 0) {}
      while (*flag != 5) {}
    }
    __syncthreads();
    __threadfence_block();
    room[t] = data[t];
    int* p = choose(room, data, which);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(data));
    unsigned dynamic;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    long long start = clock64();
    volatile int seen = p[t];
    data[64 + t] = seen + (dynamic == 256) + (clock64() >= start) + (now != 0);
    if (t == 3) asm volatile("exit;");
    clocks[t] = t;
  }
}
""",
)
def _(program: Program) -> None:
    data = np.zeros(128, np.int32)
    flag, done, clocks = np.zeros(1, np.int32), np.zeros(1, np.uint32), np.full(64, -1, np.int64)
    program.run("orders", 2, 64, data, flag, done, clocks, 1, shared=256)
    table = [3, 1, 4, 1, 5, 9, 2, 6]
    assert data.tolist() == [table[t & 7] + t for t in range(64)] + [table[t & 7] + t + 3 for t in range(64)]
    assert [int(c) for c in clocks] == [-1 if t == 3 else t for t in range(64)]


@bundle(
    "vprintf / __assertfail / malloc / free / trap",
    r"vprintf|__assertfail|malloc|free|trap",
    r"""
extern "C" __global__ void system_calls(int* out, int n) {
  int t = threadIdx.x;
  assert(n > 0);
  if (n < 0) __trap();
  int* room = (int*)malloc(16 * sizeof(int));
  for (int k = 0; k < 16; ++k) room[k] = t * k;
  int sum = 0;
  for (int k = 0; k < n; ++k) sum += room[k];
  free(room);
  out[t] = sum;
  if (t == 7) printf("thread %d of %s has %.2f\n", t, "this block", sum / 4.0);
}
""",
)
def _(program: Program) -> None:
    out = np.zeros(32, np.int32)
    program.run("system_calls", 1, 32, out, 10)
    assert out.tolist() == [t * 45 for t in range(32)]


@bundle(
    "tensor-core / dp4a / cp.async (sm_80 class)",
    r"dp4a\.|cp\.async\.c[ag]|wmma\.load|wmma\.mma|wmma\.store|ldmatrix|mma\.sync|movmatrix|cvt\.rna\.tf32",
    r"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tensors(const __half* a, const __half* b, float* c, float* d, unsigned* moved, int* dots) {
  __shared__ __align__(16) __half left[256], right[256];
  int t = threadIdx.x;
  unsigned l = (unsigned)__cvta_generic_to_shared(left + t * 8), r = (unsigned)__cvta_generic_to_shared(right + t * 8);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(l), "l"(a + t * 8));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(r), "l"(b + t * 8));
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  wmma::load_matrix_sync(fa, left, 16);
  wmma::load_matrix_sync(fb, right, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  unsigned x[4], y[2];
  unsigned at = (unsigned)__cvta_generic_to_shared(left + (t % 16) * 16 + t / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
  unsigned from = (unsigned)__cvta_generic_to_shared(right + (t % 8) * 16 + t / 8 % 2 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(from));
  float s[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int k = 0; k < 4; ++k) d[(t / 4 + k / 2 * 8) * 8 + t % 4 * 2 + k % 2] = s[k];
  unsigned turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(t * 2 | (t * 2 + 1) << 16));
  moved[t] = turned;
  unsigned tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(1.0f + 1e-3f * t));
  dots[t] = __dp4a((int)0x01FF0203, t * 0x01010101, (int)(tf32 & 0x1fff));
}
""",
)
def _(program: Program) -> None:
    i, j = np.meshgrid(np.arange(16), np.arange(16), indexing="ij")
    a, b = ((i * 5 + j) % 7 - 3).astype(np.float16), ((i + j * 3) % 5 - 2).astype(np.float16)
    c, d = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
    moved, dots = np.zeros(32, np.uint32), np.zeros(32, np.int32)
    program.run("tensors", 1, 32, a, np.ascontiguousarray(b.T), c, d, moved, dots)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, product + 1)
    np.testing.assert_array_equal(d, product[:, :8])
    np.testing.assert_array_equal(moved.view(np.uint16).reshape(8, 8), np.arange(64).reshape(8, 8).T)
    assert dots.tolist() == [t * (1 - 1 + 2 + 3) for t in range(32)]


@bundle(
    "textures/surfaces",
    r"tex\.1d|tex\.2d|tex\.3d|tex\.a2d|tex\.level|sust\.b\.1d|sust\.b\.2d|sust\.b\.3d|sust\.b\.a2d|suld\.b\.2d",
    r"""
extern "C" __global__ void paint(cudaSurfaceObject_t line, cudaSurfaceObject_t plane, cudaSurfaceObject_t solid, cudaSurfaceObject_t layers) {
  int x = threadIdx.x % 8, y = threadIdx.x / 8;
  surf1Dwrite(x + 0.5f, line, x * 4);
  surf2Dwrite(x + 10.0f * y, plane, x * 4, y);
  for (int z = 0; z < 4; ++z) surf3Dwrite(x + 10.0f * y + 100.0f * z, solid, x * 4, y, z);
  for (int z = 0; z < 3; ++z) surf2DLayeredwrite(x - 10.0f * y - 100.0f * z, layers, x * 4, y, z);
}
extern "C" __global__ void look(cudaTextureObject_t line, cudaTextureObject_t plane, cudaTextureObject_t solid, cudaTextureObject_t layers,
                                cudaSurfaceObject_t surface, float* out) {
  int x = threadIdx.x % 8, y = threadIdx.x / 8;
  float* o = out + threadIdx.x * 6;
  o[0] = tex1D<float>(line, x + 0.5f);
  o[1] = tex2D<float>(plane, x + 0.5f, y + 0.5f);
  o[2] = tex3D<float>(solid, x + 0.5f, y + 0.5f, 2.5f);
  o[3] = tex2DLayered<float>(layers, x + 0.5f, y + 0.5f, 1);
  o[4] = tex2DLod<float>(plane, x + 0.5f, y + 0.5f, 0.0f);
  surf2Dread(o + 5, surface, x * 4, y);
}
""",
)
def _(program: Program) -> None:
    class Shape(ctypes.Structure):
        _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
                    ("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]  # fmt: skip

    load_store, layered = 2, 1
    arrays, surfaces, textures = [], [], []
    for width, height, depth, flags in ((8, 0, 0, 0), (8, 4, 0, 0), (8, 4, 4, 0), (8, 4, 3, layered)):
        array = ctypes.c_void_p()
        device().call(
            "cuArray3DCreate_v2",
            ctypes.byref(array),
            ctypes.byref(Shape(width, height, depth, 0x20, 1, flags | load_store)),
        )
        resource = ctypes.create_string_buffer(144)
        ctypes.memmove(ctypes.addressof(resource) + 8, ctypes.byref(array), 8)  # CU_RESOURCE_TYPE_ARRAY is 0
        surface, texture = ctypes.c_uint64(), ctypes.c_uint64()
        device().call("cuSurfObjectCreate", ctypes.byref(surface), resource)
        settings = ctypes.create_string_buffer(104)
        ctypes.memmove(settings, (ctypes.c_int * 3)(1, 1, 1), 12)  # clamp
        device().call("cuTexObjectCreate", ctypes.byref(texture), resource, settings, None)
        arrays.append(array)
        surfaces.append(surface)
        textures.append(texture)
    program.run("paint", 1, 32, *surfaces)
    out = np.zeros((32, 6), np.float32)
    program.run("look", 1, 32, *textures, surfaces[1], out)
    for t in range(32):
        x, y = t % 8, t // 8
        assert out[t].tolist() == [x + 0.5, x + 10 * y, x + 10 * y + 200, x - 10 * y - 100, x + 10 * y, x + 10 * y]
    for array, surface, texture in zip(arrays, surfaces, textures, strict=True):
        device().call("cuTexObjectDestroy", texture)
        device().call("cuSurfObjectDestroy", surface)
        device().call("cuArrayDestroy", array)


@bundle(
    "Hopper (bulk copy, mbarrier, wgmma, elect, clusters)",
    r"mbarrier\.|fence\.proxy|cp\.async\.bulk|elect\.sync|stmatrix|wgmma\.mma_async|cp\.async\.mbarrier|barrier\.cluster|mapa\.",
    r"""
typedef unsigned long long u64;
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) hopper(const float4* in, float* out) {
  __shared__ __align__(1024) char tile[4096];
  __shared__ u64 bar;
  int t = threadIdx.x;
  unsigned at = (unsigned)__cvta_generic_to_shared(tile), gate = (unsigned)__cvta_generic_to_shared(&bar), rank, chosen, other;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(gate) : "memory");
  __syncthreads();
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
  if (t < 32 && chosen) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(gate) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" ::"r"(at), "l"(in + rank * 128), "r"(gate) : "memory");
  }
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(gate) : "memory");
  float mine = ((float*)tile)[t];
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(at + 4 * t), "r"(rank ^ 1));
  float theirs;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(theirs) : "r"(other) : "memory");
  out[rank * 128 + t] = mine - theirs;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at + t / 32 * 128 + t % 8 * 16), "r"(0x3c003c00) : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(gate) : "memory");
  for (int k = t; k < 896; k += 128) ((unsigned*)tile)[128 + k] = 0x3c003c00;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {};
  u64 left = (at >> 4) | (u64)8 << 16 | (u64)16 << 32, right = left;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{ .reg .pred p; setp.ne.u32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(left), "l"(right));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[256 + rank * 128 + t] = d[0] + d[1] + d[2] + d[3];
}
""",
    arch="compute_90a",
)
def _(program: Program) -> None:
    values = (np.arange(1024, dtype=np.float32) * 3) % 17
    out = np.zeros(512, np.float32)
    program.run("hopper", 2, 128, values, out)
    first, second = values[:128], values[512:640]
    np.testing.assert_array_equal(out[:128], first - second)
    np.testing.assert_array_equal(out[128:256], second - first)
    assert (out[256:] == 64).all()


@bundle(
    "video / packed 16-bit integer",
    r"vabsdiff4\.|vabsdiff2\.|add\.u16x2|max\.s16x2|min\.[su]16x2",
    r"""
extern "C" __global__ void packed(const unsigned* a, const unsigned* b, unsigned* out) {
  int i = threadIdx.x;
  unsigned* o = out + i * 4;
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(o[0]) : "r"(a[i]), "r"(b[i]), "r"(5));
  asm("vabsdiff2.u32.u32.u32 %0, %1, %2, %3;" : "=r"(o[1]) : "r"(a[i]), "r"(b[i]), "r"(0));
  asm("add.u16x2 %0, %1, %2;" : "=r"(o[2]) : "r"(a[i]), "r"(b[i]));
  unsigned high, low;
  asm("max.s16x2 %0, %1, %2;" : "=r"(high) : "r"(a[i]), "r"(b[i]));
  asm("min.s16x2 %0, %1, %2;" : "=r"(low) : "r"(a[i]), "r"(b[i]));
  o[3] = high ^ low;
}
""",
)
def _(program: Program) -> None:
    a = ((np.arange(64, dtype=np.uint64) * 2654435761) % 2**32).astype(np.uint32)
    b = ((np.arange(64, dtype=np.uint64) * 40503 + 977 * 65536) % 2**32).astype(np.uint32)
    out = np.zeros((64, 4), np.uint32)
    program.run("packed", 1, 64, a, b, out)
    for i in range(64):
        x, y = int(a[i]), int(b[i])
        bytes_ = sum(abs((x >> 8 * k & 255) - (y >> 8 * k & 255)) for k in range(4))
        halves = [(x >> 16 * k & 65535, y >> 16 * k & 65535) for k in range(2)]
        assert out[i].tolist() == [
            bytes_ + 5, sum(abs(p - q) << 16 * k for k, (p, q) in enumerate(halves)),
            sum((p + q) % 65536 << 16 * k for k, (p, q) in enumerate(halves)), x ^ y,
        ]  # fmt: skip


@pytest.mark.parametrize("bundle", [pytest.param(b, id=b.name) for b in BUNDLES])
def test_a_bundle_runs(bundle: Bundle) -> None:
    program = Program(bundle.source, *bundle.options, arch=bundle.arch)
    text = program.ptx.decode()
    families = re.findall(r"(?:[^|(]|\([^)]*\))+", bundle.uses)  # a family may have alternatives in parentheses
    missing = [family for family in families if not re.search(family, text)]
    assert not missing, "NVRTC made no such instruction of this kernel"
    bundle.check(program)


def test_the_documentation_lists_every_bundle() -> None:
    text = (ROOT / "docs" / "design" / "ptx.md").read_text()
    listed = re.findall(r"^\| ([^|]+?) \| [\d.]+ %", text, re.M)
    assert [name for name in listed if not name.startswith("needs a device linker")] == [b.name for b in BUNDLES]
