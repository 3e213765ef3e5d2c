"""Kernels with libcu++'s atomics and barriers and with asynchronous copies, through NVRTC, against NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import ints, random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_libcuxx_atomics_and_barrier() -> None:
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


def test_asynchronous_copy_pipeline() -> None:
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


def test_bulk_copy_with_a_barrier() -> None:
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
