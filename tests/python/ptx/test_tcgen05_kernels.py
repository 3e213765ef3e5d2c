# SPDX-License-Identifier: Apache-2.0
"""Matrix products and attention as in Blackwell kernels, written with libcu++'s cuda::ptx: tensor copies load swizzled tiles, mbarriers
synchronize, one thread multiplies (tcgen05.mma), and all warps read the result from tensor memory; alone and as a pair of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device
from ptxsuite.tensor_maps import HEAD, TYPES, tiled

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.cpu_only

SOURCE = (
    "#include <cuda/ptx>\n#include <cuda_fp16.h>\nnamespace ptx = cuda::ptx;\n"
    + HEAD
    + r"""
// Rows of 64 halves with the 128-byte swizzle: groups of eight rows are 1024 bytes apart.
__device__ u64 descriptor(unsigned address) {
  return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}
__device__ unsigned instruction(int m, int n, bool transpose_b) {
  return 1u << 4 | (unsigned)transpose_b << 16 | (unsigned)(n >> 3) << 17 | (unsigned)(m >> 4) << 24;
}
__device__ void fetch(const Map* map, void* to, u64* bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
__device__ void write(float* c, int n, unsigned d, int columns) {
  const int warp = threadIdx.x / 32;
  for (int j = 0; j < columns; j += 32) {
    unsigned r[32];
    ptx::tcgen05_ld_32x32b(r, d + (warp * 32 << 16) + j);
    ptx::tcgen05_wait_ld();
    for (int i = 0; i < 32; ++i) c[(size_t)threadIdx.x * n + j + i] = __uint_as_float(r[i]);
  }
}

// c (m x n) = a (m x k) * b (n x k) transposed, in tiles of 128 x 128 x 64.
extern "C" __global__ void __launch_bounds__(128) gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char tiles[];
  constexpr int kStages = 3, kBytes = 32768;
  __shared__ u64 full[kStages], empty[kStages], done;
  __shared__ unsigned base;
  if (threadIdx.x < 32) {
    ptx::tcgen05_alloc(ptx::cta_group_1, &base, 128);
    ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group_1);
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s]), init(&empty[s]);
    init(&done);
  }
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  const int row = blockIdx.y * 128, col = blockIdx.x * 128, steps = k / 64;
  if (threadIdx.x == 0) {
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      wait(&empty[s], (step / kStages + 1) % 2);
      expect(&full[s], kBytes);
      fetch(&a, tiles + s * kBytes, &full[s], step * 64, row);
      fetch(&b, tiles + s * kBytes + 16384, &full[s], step * 64, col);
    }
  } else if (threadIdx.x == 32) {
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      wait(&full[s], step / kStages % 2);
      ptx::tcgen05_fence_after_thread_sync();
      const u64 left = descriptor(at(tiles + s * kBytes)), right = descriptor(at(tiles + s * kBytes + 16384));
      for (int i = 0; i < 4; ++i)  // 16 halves are 32 bytes
        ptx::tcgen05_mma(ptx::kind_f16, ptx::cta_group_1, base, left + 2 * i, right + 2 * i, instruction(128, 128, false), step + i > 0, ptx::n32_t<0>{});
      ptx::tcgen05_commit(ptx::cta_group_1, &empty[s]);
    }
    ptx::tcgen05_commit(ptx::cta_group_1, &done);
  }
  wait(&done, 0);
  __syncwarp();
  ptx::tcgen05_fence_after_thread_sync();
  write(c + (size_t)row * n + col, n, base, 128);
  __syncthreads();
  if (threadIdx.x < 32) ptx::tcgen05_dealloc(ptx::cta_group_1, base, 128);
}

// The same by pairs of blocks: 256 rows, of which each block has 128, and half of b each.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
gemm_pair(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char tiles[];
  __shared__ u64 full, done;
  __shared__ unsigned base;
  const unsigned rank = blockIdx.x % 2;
  if (threadIdx.x < 32) {
    ptx::tcgen05_alloc(ptx::cta_group_2, &base, 128);
    ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group_2);
  }
  if (threadIdx.x == 0) init(&full), init(&done);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  const int row = blockIdx.x * 128, col = blockIdx.y * 128;
  for (int step = 0; step < k / 64; ++step) {
    if (threadIdx.x == 0) {
      expect(&full, 16384 + 8192);
      fetch(&a, tiles, &full, step * 64, row);
      fetch(&b, tiles + 16384, &full, step * 64, col + (int)rank * 64);
    }
    wait(&full, step % 2);
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0 && threadIdx.x == 0) {
      const u64 left = descriptor(at(tiles)), right = descriptor(at(tiles + 16384));
      for (int i = 0; i < 4; ++i)
        ptx::tcgen05_mma(ptx::kind_f16, ptx::cta_group_2, base, left + 2 * i, right + 2 * i, instruction(256, 128, false), step + i > 0, ptx::n32_t<0>{});
      ptx::tcgen05_commit_multicast(ptx::cta_group_2, &done, (unsigned short)3);
    }
    wait(&done, step % 2);
    __syncthreads();
  }
  ptx::tcgen05_fence_after_thread_sync();
  write(c + (size_t)row * n + col, n, base, 128);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x < 32) ptx::tcgen05_dealloc(ptx::cta_group_2, base, 128);
}

// Attention of 128 queries to `keys` keys, 64 wide: scores and sums in tensor memory, probabilities there as the first factor.
extern "C" __global__ void __launch_bounds__(128)
attention(const __grid_constant__ Map q, const __grid_constant__ Map k, const __grid_constant__ Map v, float* out, int keys, float scale) {
  extern __shared__ __align__(1024) char tiles[];
  char *const queries = tiles, *const key_tile = tiles + 16384, *const value_tile = tiles + 24576;
  __shared__ u64 loaded, scored, summed;
  __shared__ unsigned base;
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    ptx::tcgen05_alloc(ptx::cta_group_1, &base, 256);
    ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group_1);
  }
  if (threadIdx.x == 0) init(&loaded), init(&scored), init(&summed);
  __syncthreads();
  const unsigned scores = base, sums = base + 64, weights = base + 128, own = (unsigned)warp * 32 << 16;
  float most = __int_as_float(0xff800000), total = 0;
  for (int block = 0; block < keys / 64; ++block) {
    if (threadIdx.x == 0) {
      expect(&loaded, 16384 + (block == 0 ? 16384 : 0));
      if (block == 0) fetch(&q, queries, &loaded, 0, blockIdx.x * 128);
      fetch(&k, key_tile, &loaded, 0, block * 64);
      fetch(&v, value_tile, &loaded, 0, block * 64);
      wait(&loaded, block % 2);
      for (int i = 0; i < 4; ++i)
        ptx::tcgen05_mma(ptx::kind_f16, ptx::cta_group_1, scores, descriptor(at(queries)) + 2 * i, descriptor(at(key_tile)) + 2 * i,
                         instruction(128, 64, false), i > 0, ptx::n32_t<0>{});
      ptx::tcgen05_commit(ptx::cta_group_1, &scored);
    }
    wait(&scored, block % 2);
    __syncwarp();
    ptx::tcgen05_fence_after_thread_sync();
    unsigned words[64];
    ptx::tcgen05_ld_32x32b(words, scores + own);
    ptx::tcgen05_wait_ld();
    float s[64], top = most;
    for (int i = 0; i < 64; ++i) top = fmaxf(top, s[i] = __uint_as_float(words[i]) * scale);
    const float fade = expf(most - top);
    float added = 0;
    unsigned packed[32];
    for (int i = 0; i < 32; ++i) {
      const half2 pair = __floats2half2_rn(expf(s[2 * i] - top), expf(s[2 * i + 1] - top));
      packed[i] = *(const unsigned*)&pair;
      added += __low2float(pair) + __high2float(pair);
    }
    total = total * fade + added, most = top;
    ptx::tcgen05_st_32x32b(weights + own, packed);
    if (block > 0) {
      ptx::tcgen05_ld_32x32b(words, sums + own);
      ptx::tcgen05_wait_ld();
      for (int i = 0; i < 64; ++i) words[i] = __float_as_uint(__uint_as_float(words[i]) * fade);
      ptx::tcgen05_st_32x32b(sums + own, words);
    }
    ptx::tcgen05_wait_st();
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::tcgen05_fence_after_thread_sync();
      for (int i = 0; i < 4; ++i)  // 16 keys are 8 columns of weights and two groups of eight rows of values
        ptx::tcgen05_mma_tmem_a(ptx::kind_f16, ptx::cta_group_1, sums, weights + 8 * i, descriptor(at(value_tile + 2048 * i)),
                                instruction(128, 64, true), block + i > 0, ptx::n32_t<0>{});
      ptx::tcgen05_commit(ptx::cta_group_1, &summed);
    }
    wait(&summed, block % 2);
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
  }
  unsigned words[64];
  ptx::tcgen05_ld_32x32b(words, sums + own);
  ptx::tcgen05_wait_ld();
  for (int i = 0; i < 64; ++i) out[(size_t)(blockIdx.x * 128 + threadIdx.x) * 64 + i] = __uint_as_float(words[i]) / total;
  __syncthreads();
  if (warp == 0) ptx::tcgen05_dealloc(ptx::cta_group_1, base, 256);
}
"""
)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")
    return Program(SOURCE, arch="compute_100a")


def halves(rows: int, columns: int, seed: int) -> np.ndarray:
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    return ((i * 7 + j * 3 + i * j * seed) % 11 - 5).astype(np.float16)


def map_of(memory: object, matrix: np.ndarray, rows: int) -> object:
    address = memory.address.value  # type: ignore[attr-defined]
    height, width = matrix.shape
    return tiled(address, TYPES["float16"], [width, height], [2 * width], [64, rows], swizzle=3)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (256, 384, 320), (384, 128, 512)])
def test_product_of_matrices(program: Program, m: int, n: int, k: int) -> None:
    a, b = halves(m, k, 1), halves(n, k, 3)
    memory = [device().memory(a), device().memory(b)]
    c = np.zeros((m, n), np.float32)
    device().reserve_shared(device().function(program.module, "gemm"), 3 * 32768)
    program.run(
        "gemm",
        (n // 128, m // 128, 1),
        128,
        map_of(memory[0], a, 128),
        map_of(memory[1], b, 128),
        c,
        n,
        k,
        shared=3 * 32768,
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    for each in memory:
        each.free()


@pytest.mark.parametrize(("m", "n", "k"), [(256, 128, 64), (512, 256, 192)])
def test_product_by_pairs_of_blocks(program: Program, m: int, n: int, k: int) -> None:
    a, b = halves(m, k, 2), halves(n, k, 5)
    memory = [device().memory(a), device().memory(b)]
    c = np.zeros((m, n), np.float32)
    program.run(
        "gemm_pair",
        (m // 128, n // 128, 1),
        128,
        map_of(memory[0], a, 128),
        map_of(memory[1], b, 64),
        c,
        n,
        k,
        shared=24576,
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    for each in memory:
        each.free()


def test_attention(program: Program) -> None:
    rng = np.random.default_rng(3)
    queries, keys = 256, 192
    q, k, v = (rng.standard_normal((size, 64)).astype(np.float16) for size in (queries, keys, keys))
    memory = [device().memory(x) for x in (q, k, v)]
    out = np.zeros((queries, 64), np.float32)
    maps = [map_of(held, x, rows) for held, x, rows in zip(memory, (q, k, v), (128, 64, 64), strict=True)]
    program.run("attention", queries // 128, 128, *maps, out, keys, 0.125, shared=32768)
    scores = q.astype(np.float64) @ k.astype(np.float64).T * 0.125
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(out - expected).max() < 2e-3
    for each in memory:
        each.free()
