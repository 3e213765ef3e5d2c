# SPDX-License-Identifier: Apache-2.0
"""Kernels with libcu++ atomics and barriers and asynchronous copies, compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import ints, random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_libcuxx_atomics_and_barrier_match_numpy() -> None:
    program = Program("""
    #include <cuda/atomic>
    #include <cuda/barrier>
    extern "C" __global__ void meet(int* data, float* sums, int rounds) {
      __shared__ cuda::barrier<cuda::thread_scope_block> gate;
      if (threadIdx.x == 0) init(&gate, blockDim.x);
      __syncthreads();
      for (int r = 0; r < rounds; r++) {
        int v = data[(threadIdx.x + 1) % blockDim.x];
        gate.arrive_and_wait();
        data[threadIdx.x] += v;
        gate.arrive_and_wait();
      }
      cuda::atomic_ref<float, cuda::thread_scope_device> total(sums[0]);
      total.fetch_add(1.5f, cuda::memory_order_relaxed);
      cuda::atomic_ref<int, cuda::thread_scope_block> top(((int*)sums)[1]);
      top.fetch_max(threadIdx.x);
    }
    """)
    data = ints(96, 0, 3)
    expected = data.copy()
    for _ in range(4):
        expected = expected + np.roll(expected, -1)
    sums = np.zeros(2, np.float32)
    program.run("meet", 1, 96, data, sums, 4)
    assert np.array_equal(data, expected)
    assert sums[0] == 1.5 * 96
    assert sums.view(np.int32)[1] == 95


def test_async_copy_pipeline_matches_numpy() -> None:
    program = Program("""
    #include <cuda_pipeline.h>
    extern "C" __global__ void stream(const float4* in, float4* out, int tiles) {
      __shared__ float4 stage[2][64];
      int t = threadIdx.x;
      __pipeline_memcpy_async(&stage[0][t], &in[t], 16);
      __pipeline_commit();
      for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&stage[(k + 1) & 1][t], &in[(k + 1) * 64 + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[k & 1][63 - t];
        v.x *= 2; v.w += 1;
        out[k * 64 + t] = v;
        __syncthreads();
      }
    }
    """)
    data = random.random((5, 64, 4), np.float32)
    out = np.zeros_like(data)
    program.run("stream", 1, 64, data, out, 5)
    expected = data[:, ::-1].copy()
    expected[..., 0] *= 2
    expected[..., 3] += 1
    assert np.array_equal(out, expected)


def test_bulk_copy_with_a_barrier_matches_numpy() -> None:
    program = Program(
        """
    #include <cuda/barrier>
    extern "C" __global__ void copy(const int* in, int* out) {
      __shared__ alignas(16) int tile[256];
      #pragma nv_diag_suppress static_var_with_dynamic_init
      __shared__ cuda::barrier<cuda::thread_scope_block> gate;
      if (threadIdx.x == 0) { init(&gate, blockDim.x); cuda::device::experimental::fence_proxy_async_shared_cta(); }
      __syncthreads();
      cuda::barrier<cuda::thread_scope_block>::arrival_token token;
      if (threadIdx.x == 0) {
        cuda::memcpy_async(tile, in + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof(tile)), gate);
        token = gate.arrive();
      } else {
        token = gate.arrive();
      }
      gate.wait(std::move(token));
      for (int k = threadIdx.x; k < 256; k += blockDim.x) out[blockIdx.x * 256 + k] = tile[255 - k];
    }
    """.replace("std::move", "cuda::std::move").replace(
            "#include <cuda/barrier>", "#include <cuda/barrier>\n#include <cuda/std/utility>"
        )
    )
    data = ints(1024)
    out = np.zeros_like(data)
    program.run("copy", 4, 64, data, out)
    assert np.array_equal(out.reshape(4, 256), data.reshape(4, 256)[:, ::-1])


def test_specialized_warps_pass_tiles_through_a_ring_of_barriers() -> None:
    """One thread loads with bulk copies and four warps sum, as in matrix kernels for Hopper; semaphores and a latch synchronize them."""
    program = Program("""
    #include <cuda/ptx>
    #include <cuda/semaphore>
    #include <cuda/latch>
    namespace ptx = cuda::ptx;
    typedef unsigned long long u64;
    extern "C" __global__ void ring(const float* in, float* out, int tiles) {
      constexpr int stages = 4, n = 256;
      __shared__ alignas(128) float room[stages][n];
      __shared__ u64 full[stages], empty[stages];
      if (threadIdx.x == 0)
        for (int s = 0; s < stages; ++s) { ptx::mbarrier_init(&full[s], 1); ptx::mbarrier_init(&empty[s], 4); }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int t = 0; t < tiles; ++t) {
          int s = t % stages;
          while (!ptx::mbarrier_try_wait_parity(&empty[s], (t / stages & 1) ^ 1)) {}
          ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s], n * 4);
          ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, room[s], in + (blockIdx.x * tiles + t) * n, n * 4, &full[s]);
        }
      } else if (threadIdx.x >= 32) {
        float sum[2] = {0, 0};
        int c = threadIdx.x - 32;
        for (int t = 0; t < tiles; ++t) {
          int s = t % stages;
          while (!ptx::mbarrier_try_wait_parity(&full[s], t / stages & 1)) {}
          sum[0] += room[s][c];
          sum[1] += room[s][c + 128] * t;
          __syncwarp();
          if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&empty[s]);
        }
        out[blockIdx.x * n + c] = sum[0];
        out[blockIdx.x * n + c + 128] = sum[1];
      }
    }
    extern "C" __global__ void four_at_a_time(int* out, int* most) {
      using semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 4>;
      using latch = cuda::latch<cuda::thread_scope_block>;
      __shared__ alignas(semaphore) char room[sizeof(semaphore)];
      __shared__ alignas(latch) char other[sizeof(latch)];
      __shared__ int inside;
      semaphore& seats = *(semaphore*)room;
      latch& all = *(latch*)other;
      if (threadIdx.x == 0) { new (room) semaphore(4); new (other) latch(blockDim.x); inside = 0; }
      __syncthreads();
      seats.acquire();
      atomicMax(most, atomicAdd(&inside, 1) + 1);
      __nanosleep(20);
      atomicAdd(out, (int)threadIdx.x);
      atomicSub(&inside, 1);
      seats.release();
      all.arrive_and_wait();
      atomicAdd(out + 1, inside + 1);
    }
    """)
    tiles = 13
    given = random.random((5, tiles, 256), dtype=np.float32)
    out = np.zeros((5, 256), np.float32)
    program.run("ring", 5, 160, given, out, tiles)
    scaled = given[:, :, 128:] * np.arange(tiles, dtype=np.float32)[None, :, None]
    np.testing.assert_allclose(out, np.concatenate([given[:, :, :128].sum(1), scaled.sum(1)], 1), rtol=1e-5)
    counts, most = np.zeros(2, np.int32), np.zeros(1, np.int32)
    program.run("four_at_a_time", 3, 64, counts, most)
    assert list(counts) == [3 * 63 * 32, 3 * 64] and 1 <= most[0] <= 4
