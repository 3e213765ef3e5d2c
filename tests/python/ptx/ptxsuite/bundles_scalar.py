# SPDX-License-Identifier: Apache-2.0
"""Bundles of common instructions: integers, floats, memory, warps, atomics."""

from __future__ import annotations

import ctypes
from functools import reduce

import numpy as np

from .bundle import bundle, signed
from .program import Program


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
