# SPDX-License-Identifier: Apache-2.0
"""Complete programs: solvers, graphs, hash tables, transforms, generators; compared with NumPy or Python."""

from __future__ import annotations

import cmath
import collections
import ctypes
from typing import Any

import numpy as np
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_fp4_fp6_and_fp8_conversions_match_their_formats() -> None:
    """fp4, fp6, fp8 and e8m0: every code to float and back, and the rounding of a ramp."""
    program = Program("""
    #include <cuda_fp8.h>
    #include <cuda_fp6.h>
    #include <cuda_fp4.h>
    template <class T, class S> __device__ float value(unsigned i) { T t; t.__x = (S)i; return float(t); }
    extern "C" __global__ void codes(float* out) {
      unsigned i = threadIdx.x;
      out[i] = value<__nv_fp8_e4m3, unsigned char>(i);
      out[256 + i] = value<__nv_fp8_e5m2, unsigned char>(i);
      out[512 + i] = i < 64 ? value<__nv_fp6_e2m3, unsigned char>(i) : 0;
      out[768 + i] = i < 64 ? value<__nv_fp6_e3m2, unsigned char>(i) : 0;
      out[1024 + i] = i < 16 ? value<__nv_fp4_e2m1, unsigned char>(i) : 0;
      out[1280 + i] = value<__nv_fp8_e8m0, unsigned char>(i);
    }
    extern "C" __global__ void rounded(const float* in, float* out, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      out[i] = float(__nv_fp6_e2m3(in[i]));
      out[n + i] = float(__nv_fp6_e3m2(in[i]));
      out[2 * n + i] = float(__nv_fp4_e2m1(in[i]));
    }
    """)

    def decoded(exponent: int, mantissa: int, bias: int) -> np.ndarray:
        codes = np.arange(1 << (1 + exponent + mantissa))
        e, m = codes >> mantissa & ((1 << exponent) - 1), codes & ((1 << mantissa) - 1)
        size = np.where(e == 0, m * 2.0 ** (1 - bias - mantissa), (1 + m / 2**mantissa) * 2.0 ** (e - bias))
        return np.where(codes >> (exponent + mantissa), -size, size)

    out = np.zeros(1536, np.float32)
    program.run("codes", 1, 256, out)
    e4m3, e5m2 = decoded(4, 3, 7), decoded(5, 2, 15)
    e4m3[[127, 255]] = np.nan
    e5m2[[124, 252]] = [np.inf, -np.inf]
    e5m2[[125, 126, 127, 253, 254, 255]] = np.nan
    np.testing.assert_array_equal(out[:256], e4m3.astype(np.float32))
    np.testing.assert_array_equal(out[256:512], e5m2.astype(np.float32))
    np.testing.assert_array_equal(out[512:576], decoded(2, 3, 1).astype(np.float32))
    np.testing.assert_array_equal(out[768:832], decoded(3, 2, 3).astype(np.float32))
    np.testing.assert_array_equal(out[1024:1040], decoded(2, 1, 1).astype(np.float32))
    np.testing.assert_array_equal(out[1280:1535], (2.0 ** (np.arange(255) - 127)).astype(np.float32))
    assert np.isnan(out[1535])

    ramp = np.arange(-2560, 2561, dtype=np.float32) / 64
    got = np.zeros(3 * ramp.size, np.float32)
    program.run("rounded", 41, 128, ramp, got, ramp.size)
    for k, table in enumerate((decoded(2, 3, 1), decoded(3, 2, 3), decoded(2, 1, 1))):
        values = np.unique(table)  # ties round to even; too large values saturate
        half = (values[:-1] + values[1:]) / 2
        near = values[np.searchsorted(half, ramp)]
        ties = np.isin(ramp.astype(np.float64), half)
        mine = got[k * ramp.size : (k + 1) * ramp.size]
        np.testing.assert_array_equal(mine[~ties], near[~ties].astype(np.float32))
        assert ties.sum() >= 4 and np.isin(mine[ties], values.astype(np.float32)).all()


def test_curand_generators_match_their_definitions() -> None:
    """XORWOW and MRG32k3a as published, skipped sequences, and the moments of distributions."""
    program = Program("""
    #include <curand_kernel.h>
    extern "C" __global__ void steps(unsigned* xorwow, double* mrg, unsigned* skipped) {
      curandStateXORWOW_t x;
      curand_init(99, 0, 0, &x);
      for (int k = 0; k < 6; k++) xorwow[k] = k < 5 ? x.v[k] : x.d;
      for (int k = 0; k < 32; k++) xorwow[6 + k] = curand(&x);
      curandStateMRG32k3a_t m;
      curand_init(7, 0, 0, &m);
      for (int k = 0; k < 3; k++) { mrg[k] = m.s1[k]; mrg[3 + k] = m.s2[k]; }
      for (int k = 0; k < 32; k++) mrg[6 + k] = curand_uniform_double(&m);
      curandStateXORWOW_t y;
      curand_init(99, 0, 20, &y);
      for (int k = 0; k < 12; k++) skipped[k] = curand(&y);
    }
    extern "C" __global__ void moments(float* out) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
      curandState state;
      curand_init(5, i, 0, &state);
      out[i] = curand_log_normal(&state, 0.5f, 0.25f);
      out[n + i] = curand_poisson(&state, 6.5);
      out[2 * n + i] = curand_normal_double(&state);
      float4 four;
      curandStatePhilox4_32_10_t p;
      curand_init(5, i, 0, &p);
      four = curand_uniform4(&p);
      out[3 * n + i] = four.x + four.y + four.z + four.w;
    }
    """)
    xorwow, mrg, skipped = np.zeros(38, np.uint32), np.zeros(38), np.zeros(12, np.uint32)
    program.run("steps", 1, 1, xorwow, mrg, skipped)
    v, d, wanted = [int(x) for x in xorwow[:5]], int(xorwow[5]), []
    for _ in range(32):
        t = v[0] ^ v[0] >> 2
        v = [*v[1:], (v[4] ^ v[4] << 4 ^ t ^ t << 1) & 0xFFFFFFFF]
        d = (d + 362437) & 0xFFFFFFFF
        wanted.append((v[4] + d) & 0xFFFFFFFF)
    assert [int(x) for x in xorwow[6:]] == wanted
    assert [int(x) for x in skipped] == wanted[20:]
    s1, s2, doubles = [int(x) for x in mrg[:3]], [int(x) for x in mrg[3:6]], []
    for _ in range(32):
        p1 = (1403580 * s1[1] - 810728 * s1[0]) % 4294967087
        p2 = (527612 * s2[2] - 1370589 * s2[0]) % 4294944443
        s1, s2 = [s1[1], s1[2], p1], [s2[1], s2[2], p2]
        doubles.append(((p1 - p2) % 4294967087 or 4294967087) * 2.3283065498378288e-10)
    np.testing.assert_allclose(mrg[6:], doubles, rtol=1e-15)
    out = np.zeros((4, 4096), np.float32)
    program.run("moments", 32, 128, out)
    assert abs(np.log(out[0]).mean() - 0.5) < 0.02 and abs(np.log(out[0]).std() - 0.25) < 0.02
    assert abs(out[1].mean() - 6.5) < 0.2 and abs(out[1].var() - 6.5) < 0.6 and (out[1] == np.round(out[1])).all()
    assert abs(out[2].mean()) < 0.06 and abs(out[2].std() - 1) < 0.05
    assert abs(out[3].mean() - 2) < 0.04 and abs(out[3].var() - 1 / 3) < 0.04


def test_wmma_products_of_every_element_type_match_numpy() -> None:
    program = Program("""
    #include <mma.h>
    #include <cuda_bf16.h>
    using namespace nvcuda;
    template <int M, int N, int K, class In, class Frag, class Acc, class LA, class LB>
    __device__ void product(const In* a, int lda, const In* b, int ldb, Acc* c) {
      wmma::fragment<wmma::matrix_a, M, N, K, Frag, LA> fa;
      wmma::fragment<wmma::matrix_b, M, N, K, Frag, LB> fb;
      wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
      wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
      wmma::load_matrix_sync(fa, a, lda);
      wmma::load_matrix_sync(fb, b, ldb);
      if constexpr (sizeof(In) == 4) {
        for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
        for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
      }
      wmma::mma_sync(fc, fa, fb, fc);
      for (int t = 0; t < fc.num_elements; t++) fc.x[t] = fc.x[t] * Acc(2);
      wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
    }
    using Row = wmma::row_major; using Col = wmma::col_major;
    extern "C" __global__ void bytes(const signed char* a, const signed char* b, int* c) { product<32, 8, 16, signed char, signed char, int, Row, Col>(a, 16, b, 16, c); }
    extern "C" __global__ void unsigned_bytes(const unsigned char* a, const unsigned char* b, int* c) { product<8, 32, 16, unsigned char, unsigned char, int, Col, Row>(a, 8, b, 32, c); }
    extern "C" __global__ void brain(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) { product<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, Col, Col>(a, 16, b, 16, c); }
    extern "C" __global__ void tf32(const float* a, const float* b, float* c) { product<16, 16, 8, float, wmma::precision::tf32, float, Row, Row>(a, 8, b, 16, c); }
    extern "C" __global__ void halves(const __half* a, const __half* b, __half* c) { product<16, 16, 16, __half, __half, __half, Row, Row>(a, 16, b, 16, c); }
    """)  # fmt: skip
    random = np.random.default_rng(41)

    def check(
        kernel: str, m: int, n: int, k: int, types: tuple[Any, Any], low: int, a_columns: bool, b_columns: bool
    ) -> None:
        dtype, result = types
        a, b, c = random.integers(low, 8, (m, k)), random.integers(low, 8, (k, n)), random.integers(-9, 9, (m, n))

        def stored(v: np.ndarray, columns: bool) -> np.ndarray:
            v = np.ascontiguousarray(v.T if columns else v)
            return (
                (v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else v.astype(dtype)
            )

        out = c.astype(result)
        program.run(kernel, 1, 32, stored(a, a_columns), stored(b, b_columns), out)
        np.testing.assert_array_equal(out.astype(np.int64), 2 * (a @ b + c), kernel)

    check("bytes", 32, 8, 16, (np.int8, np.int32), -8, False, True)
    check("unsigned_bytes", 8, 32, 16, (np.uint8, np.int32), 0, True, False)
    check("brain", 16, 16, 16, ("bf16", np.float32), -8, True, True)
    check("tf32", 16, 16, 8, (np.float32, np.float32), -8, False, False)
    check("halves", 16, 16, 16, (np.float16, np.float16), -3, False, False)


def test_breadth_first_search_finds_the_distances() -> None:
    program = Program("""
    #include <cuda/atomic>
    extern "C" __global__ void level(const int* starts, const int* edges, const int* queue, int count, int* next, int* next_count, int* distance, int depth) {
      __shared__ int found[256], total, base;
      if (threadIdx.x == 0) total = 0;
      __syncthreads();
      int at = blockIdx.x * blockDim.x + threadIdx.x;
      if (at < count) {
        int node = queue[at];
        for (int e = starts[node]; e < starts[node + 1]; e++) {
          cuda::atomic_ref<int, cuda::thread_scope_device> seen(distance[edges[e]]);
          int unseen = -1;
          if (seen.compare_exchange_strong(unseen, depth, cuda::memory_order_relaxed)) {
            int slot = atomicAdd(&total, 1);
            if (slot < 256) found[slot] = edges[e];
            else next[atomicAdd(next_count, 1)] = edges[e];
          }
        }
      }
      __syncthreads();
      int kept = min(total, 256);
      if (threadIdx.x == 0) base = atomicAdd(next_count, kept);
      __syncthreads();
      for (int k = threadIdx.x; k < kept; k += blockDim.x) next[base + k] = found[k];
    }
    """)  # fmt: skip
    random, nodes = np.random.default_rng(42), 3000
    degree = random.integers(0, 12, nodes)
    degree[7] = 900
    starts = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
    edges = random.integers(0, nodes, starts[-1], dtype=np.int32)
    distance, queue = np.full(nodes, -1, np.int32), np.array([7], np.int32)
    distance[7], depth = 0, 0
    while queue.size:
        depth += 1
        following, count = np.zeros(nodes, np.int32), np.zeros(1, np.int32)
        blocks = -(-queue.size // 64)
        program.run("level", blocks, 64, starts, edges, queue, queue.size, following, count, distance, depth)
        queue = following[: count[0]].copy()
    wanted, todo = {7: 0}, collections.deque([7])
    while todo:
        node = todo.popleft()
        for other in edges[starts[node] : starts[node + 1]].tolist():
            if other not in wanted:
                wanted[other] = wanted[node] + 1
                todo.append(other)
    assert distance.tolist() == [wanted.get(node, -1) for node in range(nodes)]


def test_hash_table_finds_every_pair() -> None:
    """Open addressing with 64-bit compare and swap, 128-bit exchange if available, look-up by cooperative tiles."""
    program = Program("""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    using u64 = unsigned long long;
    __device__ unsigned mixed(unsigned k) { k ^= k >> 16; k *= 0x85ebca6b; k ^= k >> 13; k *= 0xc2b2ae35; return k ^ k >> 16; }
    extern "C" __global__ void insert(u64* table, int mask, const unsigned* keys, const unsigned* values, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      u64 entry = (u64)keys[i] << 32 | values[i];
      for (unsigned at = mixed(keys[i]) & mask;; at = (at + 1) & mask) {
        u64 old = atomicCAS(&table[at], ~0ull, entry);
        if (old == ~0ull) return;
        if (old >> 32 == keys[i]) { atomicMax(&table[at], entry); return; }
      }
    }
    extern "C" __global__ void find(const u64* table, int mask, const unsigned* keys, unsigned* values, int n) {
      auto tile = cg::tiled_partition<8>(cg::this_thread_block());
      int which = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
      if (which >= n) return;
      unsigned key = keys[which];
      for (unsigned at = mixed(key) & mask;; at += 8) {
        u64 entry = table[(at + tile.thread_rank()) & mask];
        unsigned hit = tile.ballot(entry >> 32 == key && entry != ~0ull), empty = tile.ballot(entry == ~0ull);
        if (hit && (!empty || __ffs(hit) < __ffs(empty))) {
          unsigned value = tile.shfl((unsigned)entry, __ffs(hit) - 1);
          if (tile.thread_rank() == 0) values[which] = value;
          return;
        }
        if (empty) { if (tile.thread_rank() == 0) values[which] = 0xffffffffu; return; }
      }
    }
    """)
    random = np.random.default_rng(43)
    keys = random.integers(0, 3000, 5000, dtype=np.uint32)
    values = random.integers(0, 1 << 31, 5000, dtype=np.uint32)
    table = np.full(8192, 0xFFFFFFFFFFFFFFFF, np.uint64)
    program.run("insert", 40, 128, table, 8191, keys, values, 5000)
    wanted: dict[int, int] = {}
    for k, v in zip(keys.tolist(), values.tolist(), strict=True):
        wanted[k] = max(v, wanted.get(k, 0))
    asked, found = np.arange(4000, dtype=np.uint32), np.zeros(4000, np.uint32)
    program.run("find", 250, 128, table, 8191, asked, found, 4000)
    assert found.tolist() == [wanted.get(k, 0xFFFFFFFF) for k in range(4000)]


def test_fourier_transform_in_shared_memory_matches_numpy() -> None:
    program = Program("""
    #include <cuda/std/complex>
    using C = cuda::std::complex<double>;
    template <int LOG> __device__ void transform(C* data) {
      constexpr int N = 1 << LOG;
      __shared__ __align__(16) unsigned char memory[N * sizeof(C)];
      C* tile = reinterpret_cast<C*>(memory);
      for (int i = threadIdx.x; i < N; i += blockDim.x) tile[__brev(i) >> (32 - LOG)] = data[blockIdx.x * N + i];
      for (int half = 1; half < N; half *= 2) {
        __syncthreads();
        for (int i = threadIdx.x; i < N / 2; i += blockDim.x) {
          int k = i & (half - 1), at = (i - k) * 2 + k;
          double s, c;
          sincospi(-double(k) / half, &s, &c);
          C turned = tile[at + half] * C(c, s), kept = tile[at];
          tile[at] = kept + turned;
          tile[at + half] = kept - turned;
        }
      }
      __syncthreads();
      for (int i = threadIdx.x; i < N; i += blockDim.x) data[blockIdx.x * N + i] = tile[i];
    }
    extern "C" __global__ void fft1024(C* data) { transform<10>(data); }
    """)
    random = np.random.default_rng(44)
    data = random.normal(size=(3, 1024)) + 1j * random.normal(size=(3, 1024))
    out = np.ascontiguousarray(data).view(np.float64).copy()
    program.run("fft1024", 3, 128, out)
    np.testing.assert_allclose(out.view(np.complex128), np.fft.fft(data), atol=1e-10)


def test_backtracking_counts_all_solutions() -> None:
    """N queens with bit masks, one start per thread; recursion and an explicit stack must agree."""
    program = Program("""
    __device__ __noinline__ int recurse(int n, unsigned cols, unsigned left, unsigned right, int row) {
      if (row == n) return 1;
      int count = 0;
      for (unsigned open = ~(cols | left | right) & ((1u << n) - 1); open; open &= open - 1) {
        unsigned bit = open & -open;
        count += recurse(n, cols | bit, (left | bit) << 1, (right | bit) >> 1, row + 1);
      }
      return count;
    }
    __device__ int iterate(int n, unsigned cols, unsigned left, unsigned right, int row) {
      struct Frame { unsigned cols, left, right, open; } stack[16];
      int depth = 0, count = 0;
      const unsigned full = (1u << n) - 1;
      stack[0] = {cols, left, right, ~(cols | left | right) & full};
      while (depth >= 0) {
        Frame& f = stack[depth];
        if (!f.open) { depth--; continue; }
        unsigned bit = f.open & -f.open;
        f.open ^= bit;
        if (row + depth + 1 == n) { count++; continue; }
        Frame g = {f.cols | bit, (f.left | bit) << 1, (f.right | bit) >> 1, 0};
        g.open = ~(g.cols | g.left | g.right) & full;
        stack[++depth] = g;
      }
      return count;
    }
    extern "C" __global__ void queens(int n, int* totals) {
      int a = threadIdx.x / n, b = threadIdx.x % n;
      if (a >= n) return;
      unsigned p = 1u << a, q = 1u << b, cols = p, left = p << 1, right = p >> 1;
      if (q & (cols | left | right)) return;
      cols |= q; left = (left | q) << 1; right = (right | q) >> 1;
      atomicAdd(&totals[0], recurse(n, cols, left, right, 2));
      atomicAdd(&totals[1], iterate(n, cols, left, right, 2));
    }
    """)
    for n, solutions in ((6, 4), (8, 92), (9, 352)):
        totals = np.zeros(2, np.int32)
        program.run("queens", 1, 96, n, totals)
        assert totals.tolist() == [solutions, solutions]


def test_cluster_histogram_matches_numpy() -> None:
    """Distributed shared memory with cooperative groups: each block holds a part of the bins, and all blocks add to all parts."""
    program = Program("""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram(const int* in, int n, int* bins) {
      __shared__ int mine[64];
      auto cluster = cg::this_cluster();
      for (int i = threadIdx.x; i < 64; i += blockDim.x) mine[i] = 0;
      cluster.sync();
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = in[i];
        atomicAdd(cluster.map_shared_rank(mine, bin / 64) + bin % 64, 1);
      }
      cluster.sync();
      for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * 64 + i], mine[i]);
    }
    """)
    data = np.random.default_rng(45).integers(0, 256, 20000, dtype=np.int32)
    bins = np.zeros(256, np.int32)
    program.run("histogram", 8, 128, data, data.size, bins)
    assert bins.tolist() == np.bincount(data, minlength=256).tolist()


def test_pipelined_stencil_matches_numpy() -> None:
    """cuda::pipeline with four stages between producers and consumers of one block; a stencil over the tiles."""
    program = Program("""
    #include <cooperative_groups.h>
    #include <cuda/pipeline>
    namespace cg = cooperative_groups;
    extern "C" __global__ void smooth(const float* in, float* out, int tiles) {
      constexpr int STAGES = 4, TILE = 64;
      __shared__ alignas(16) float buffer[STAGES][TILE + 8];
      __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
      auto block = cg::this_thread_block();
      const auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
      auto pipe = cuda::make_pipeline(block, &state, role);
      if (role == cuda::pipeline_role::producer) {
        auto warp = cg::tiled_partition<32>(block);
        for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
          pipe.producer_acquire();
          cuda::memcpy_async(warp, buffer[(t / gridDim.x) % STAGES], in + t * TILE, cuda::aligned_size_t<16>(sizeof(float) * (TILE + 8)), pipe);
          pipe.producer_commit();
        }
      } else {
        int k = threadIdx.x - 32;
        for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
          pipe.consumer_wait();
          const float* row = buffer[(t / gridDim.x) % STAGES];
          float sum = 0;
          for (int d = 0; d < 8; d++) sum += row[k + d];
          out[t * TILE + k] = sum;
          pipe.consumer_release();
        }
      }
    }
    """)
    tiles = 37
    data = np.random.default_rng(46).integers(0, 100, tiles * 64 + 8).astype(np.float32)
    out = np.zeros(tiles * 64, np.float32)
    program.run("smooth", 3, 96, data, out, tiles)
    assert np.array_equal(out, np.convolve(data, np.ones(8, np.float32), "valid")[: out.size])


def test_word_count_matches_python() -> None:
    """Bytes, unaligned strings, look-up tables in constant memory, a trie in global memory with locks."""
    program = Program("""
    struct Node { int child[26]; int count; int lock; };
    __constant__ unsigned char lower[256] = {0};
    __device__ Node pool[4096];
    __device__ int used = 1;
    extern "C" __global__ void count(const unsigned char* text, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n || !lower[text[i]] || (i > 0 && lower[text[i - 1]])) return;
      int at = 0;
      for (; i < n && lower[text[i]]; i++) {
        int letter = lower[text[i]] - 'a';
        volatile int* slot = &pool[at].child[letter];
        while (*slot == 0) {
          if (atomicCAS(&pool[at].lock, 0, 1) == 0) {
            if (*slot == 0) {
              int fresh = atomicAdd(&used, 1);
              __threadfence();
              *slot = fresh;
            }
            __threadfence();
            atomicExch(&pool[at].lock, 0);
          }
        }
        at = *slot;
      }
      atomicAdd(&pool[at].count, 1);
    }
    extern "C" __global__ void look_up(const unsigned char* words, const int* starts, int* counts) {
      int at = 0, w = threadIdx.x;
      for (int i = starts[w]; i < starts[w + 1]; i++) { at = pool[at].child[words[i] - 'a']; if (!at) break; }
      counts[w] = at ? pool[at].count : 0;
    }
    """)
    from ptxsuite.program import device

    table = np.zeros(256, np.uint8)
    for c in range(26):
        table[ord("a") + c] = table[ord("A") + c] = ord("a") + c
    address, size = program.variable("lower")
    device().call(
        "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(table.ctypes.data), ctypes.c_size_t(size)
    )
    random = np.random.default_rng(47)
    vocabulary = ["warp", "lane", "Grid", "grids", "block", "a", "Warps", "lanes", "barrier", "bar"]
    text = " ".join(random.choice(vocabulary, 1500).tolist()).replace("lane ", "lane, ")
    data = np.frombuffer(text.encode(), np.uint8).copy()
    program.run("count", -(-data.size // 128), 128, data, data.size)
    asked = sorted({w.lower() for w in vocabulary} | {"war", "gridss", "b"})
    letters = np.frombuffer("".join(asked).encode(), np.uint8).copy()
    starts = np.concatenate([[0], np.cumsum([len(w) for w in asked])]).astype(np.int32)
    counts = np.zeros(len(asked), np.int32)
    program.run("look_up", 1, len(asked), letters, starts, counts)
    wanted = collections.Counter(text.replace(",", "").lower().split())
    assert dict(zip(asked, counts.tolist(), strict=True)) == {w: wanted.get(w, 0) for w in asked}


def test_ray_tracer_with_virtual_functions_matches_python() -> None:
    """Objects created with new on the device, called through virtual functions by other kernels, and deleted on the device."""
    program = Program("""
    struct Shape { __device__ virtual float hit(float x, float y) const = 0; __device__ virtual ~Shape() {} };
    struct Ball : Shape { float x, y, r; __device__ Ball(float x, float y, float r) : x(x), y(y), r(r) {}
      __device__ float hit(float a, float b) const override { float d = r * r - (a - x) * (a - x) - (b - y) * (b - y); return d < 0 ? -1.0f : sqrtf(d); } };
    struct Box : Shape { float x, y, w; int* gone; __device__ Box(float x, float y, float w, int* gone) : x(x), y(y), w(w), gone(gone) {}
      __device__ ~Box() override { atomicAdd(gone, 1); }
      __device__ float hit(float a, float b) const override { return fabsf(a - x) <= w && fabsf(b - y) <= w ? w : -1.0f; } };
    __device__ Shape* scene[32];
    extern "C" __global__ void make(const float* parts, int* gone) {
      int i = threadIdx.x;
      if (i % 3 == 0) scene[i] = new Box(parts[3 * i], parts[3 * i + 1], parts[3 * i + 2], gone);
      else scene[i] = new Ball(parts[3 * i], parts[3 * i + 1], parts[3 * i + 2]);
    }
    extern "C" __global__ void trace(float* picture, int width) {
      int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
      float best = -1;
      for (int k = 0; k < 32; k++) best = fmaxf(best, scene[k]->hit(x, y));
      picture[y * width + x] = best;
    }
    extern "C" __global__ void end() { delete scene[threadIdx.x]; }
    """)
    parts = np.random.default_rng(48).integers(1, 40, (32, 3)).astype(np.float32)
    parts[:, 2] = parts[:, 2] // 8 + 1
    picture, gone = np.zeros((48, 64), np.float32), np.zeros(1, np.int32)
    from ptxsuite.program import device

    counter = device().memory(gone)  # must outlive the boxes that point to it
    program.run("make", 1, 32, parts, counter.address)
    program.run("trace", (4, 6, 1), (16, 8, 1), picture, 64)
    y, x = np.mgrid[:48, :64].astype(np.float32)
    wanted = np.full((48, 64), -1, np.float32)
    for k, (cx, cy, r) in enumerate(parts):
        if k % 3 == 0:
            found = np.where((abs(x - cx) <= r) & (abs(y - cy) <= r), r, np.float32(-1))
        else:
            inside = r * r - (x - cx) ** 2 - (y - cy) ** 2
            found = np.where(inside < 0, np.float32(-1), np.sqrt(np.maximum(inside, 0)))
        wanted = np.maximum(wanted, found)
    np.testing.assert_array_equal(picture, wanted)
    program.run("end", 1, 32)
    assert counter.read(np.int32, 1)[0] == 11
    counter.free()


def test_polynomial_solver_finds_the_roots() -> None:
    """Durand-Kerner with complex doubles: divergent loops that end when the whole warp has converged."""
    program = Program("""
    #include <cuda/std/complex>
    #include <cuda/std/array>
    using C = cuda::std::complex<double>;
    extern "C" __global__ void roots(const double* coefficients, C* out, int degree, int count) {
      int which = blockIdx.x * blockDim.x + threadIdx.x;
      if (which >= count) return;
      const double* c = coefficients + which * (degree + 1);
      cuda::std::array<C, 8> z;
      for (int k = 0; k < degree; k++) z[k] = cuda::std::pow(C(0.4, 0.9), k);
      for (int round = 0; round < 500; round++) {
        double moved = 0;
        for (int k = 0; k < degree; k++) {
          C value = c[0], below = 1;
          for (int j = 1; j <= degree; j++) value = value * z[k] + c[j];
          for (int j = 0; j < degree; j++) if (j != k) below *= z[k] - z[j];
          C step = value / below;
          z[k] -= step;
          moved = fmax(moved, cuda::std::abs(step));
        }
        if (moved < 1e-14) break;
      }
      for (int k = 0; k < degree; k++) out[which * degree + k] = z[k];
    }
    """)
    random = np.random.default_rng(49)
    wanted = np.sort(np.cumsum(random.uniform(0.5, 1.5, (100, 5)), 1) - 3, 1)
    coefficients = np.array([np.poly(r) for r in wanted])
    out = np.zeros((100, 10))
    program.run("roots", 2, 64, coefficients, out, 5, 100)
    found = out.view(np.complex128)
    assert abs(found.imag).max() < 1e-6
    np.testing.assert_allclose(np.sort(found.real, 1), wanted, atol=1e-6)
    assert cmath.isclose(complex(found[0].sum()), complex(wanted[0].sum()), abs_tol=1e-6)
