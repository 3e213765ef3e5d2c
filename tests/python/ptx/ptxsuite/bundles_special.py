# SPDX-License-Identifier: Apache-2.0
"""Bundles of special instructions: small floats, calls, fences, the heap, tensor cores, textures, Hopper, video."""

from __future__ import annotations

import ctypes

import numpy as np

from .bundle import bundle
from .program import Program, device


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
