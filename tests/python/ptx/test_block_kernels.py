# SPDX-License-Identifier: Apache-2.0
"""Block-level kernels (CUB, shared memory, barriers), compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import ints, random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_cub_block_scan_and_reduce_match_numpy() -> None:
    program = Program("""
    #include <cub/block/block_scan.cuh>
    #include <cub/block/block_reduce.cuh>
    extern "C" __global__ void scan(const int* in, int* out, int* sums) {
      using Scan = cub::BlockScan<int, 256>;
      using Reduce = cub::BlockReduce<int, 256>;
      __shared__ union { Scan::TempStorage s; Reduce::TempStorage r; } temp;
      int i = blockIdx.x * 256 + threadIdx.x;
      int v = in[i], total, exclusive;
      Scan(temp.s).ExclusiveSum(v, exclusive, total);
      out[i] = exclusive;
      __syncthreads();
      int sum = Reduce(temp.r).Sum(v);
      if (threadIdx.x == 0) sums[blockIdx.x] = sum == total ? sum : -1;
    }
    """)
    data = ints(1024)
    out, sums = np.zeros_like(data), np.zeros(4, np.int32)
    program.run("scan", 4, 256, data, out, sums)
    rows = data.reshape(4, 256)
    assert np.array_equal(out.reshape(4, 256), np.cumsum(rows, axis=1) - rows)
    assert np.array_equal(sums, rows.sum(axis=1))


def test_cub_block_radix_sort_matches_numpy() -> None:
    program = Program("""
    #include <cub/block/block_radix_sort.cuh>
    #include <cub/block/block_load.cuh>
    #include <cub/block/block_store.cuh>
    extern "C" __global__ void sort(int* keys) {
      using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
      using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_TRANSPOSE>;
      using Sort = cub::BlockRadixSort<int, 128, 4>;
      __shared__ union { Load::TempStorage l; Store::TempStorage s; Sort::TempStorage r; } temp;
      int items[4];
      int* mine = keys + blockIdx.x * 512;
      Load(temp.l).Load(mine, items);
      __syncthreads();
      Sort(temp.r).Sort(items);
      __syncthreads();
      Store(temp.s).Store(mine, items);
    }
    """)
    data = ints(1024, -(2**31), 2**31 - 1)
    expected = np.sort(data.reshape(2, 512), axis=1).ravel()
    program.run("sort", 2, 128, data)
    assert np.array_equal(data, expected)


def test_cub_warp_scan_and_merge_sort_match_numpy() -> None:
    program = Program("""
    #include <cub/warp/warp_scan.cuh>
    #include <cub/warp/warp_merge_sort.cuh>
    struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
    extern "C" __global__ void warps(int* data, int* maxima) {
      using Scan = cub::WarpScan<int>;
      using Sort = cub::WarpMergeSort<int, 4, 32>;
      __shared__ Scan::TempStorage scan[4];
      __shared__ Sort::TempStorage sort[4];
      int w = threadIdx.x / 32, lane = threadIdx.x % 32;
      int items[4], running;
      for (int k = 0; k < 4; k++) items[k] = data[w * 128 + lane * 4 + k];
      Scan(scan[w]).InclusiveScan(items[0], running, [](int a, int b) { return a > b ? a : b; });
      maxima[threadIdx.x] = running;
      Sort(sort[w]).Sort(items, Less());
      for (int k = 0; k < 4; k++) data[w * 128 + lane * 4 + k] = items[k];
    }
    """)
    data = ints(512)
    rows = data.reshape(4, 128).copy()
    maxima = np.zeros(128, np.int32)
    program.run("warps", 1, 128, data, maxima)
    assert np.array_equal(data.reshape(4, 128), np.sort(rows, axis=1))
    assert np.array_equal(maxima.reshape(4, 32), np.maximum.accumulate(rows[:, ::4], axis=1))


def test_tiled_matrix_product_in_dynamic_shared_memory_matches_numpy() -> None:
    program = Program("""
    extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
      extern __shared__ float tile[];
      float *ta = tile, *tb = tile + 256;
      int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
      float sum = 0;
      for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y * 16 + threadIdx.x] = a[y * n + k + threadIdx.x];
        tb[threadIdx.y * 16 + threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += ta[threadIdx.y * 16 + j] * tb[j * 16 + threadIdx.x];
        __syncthreads();
      }
      c[y * n + x] = sum;
    }
    """)
    a, b = (random.random((64, 64), np.float32) for _ in range(2))
    c = np.zeros_like(a)
    program.run("product", (4, 4, 1), (16, 16, 1), a, b, c, 64, shared=2048)
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_histogram_with_shared_atomics_matches_numpy() -> None:
    program = Program("""
    extern "C" __global__ void histogram(const unsigned char* in, int n, unsigned* out) {
      __shared__ unsigned bins[256];
      for (int k = threadIdx.x; k < 256; k += blockDim.x) bins[k] = 0;
      __syncthreads();
      for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) atomicAdd(&bins[in[k]], 1u);
      __syncthreads();
      for (int k = threadIdx.x; k < 256; k += blockDim.x) atomicAdd(&out[k], bins[k]);
    }
    """)
    data = random.integers(0, 256, 10007).astype(np.uint8)
    out = np.zeros(256, np.uint32)
    program.run("histogram", 5, 96, data, len(data), out)
    assert np.array_equal(out, np.bincount(data, minlength=256))


def test_barrier_reductions_match_numpy() -> None:
    program = Program("""
    extern "C" __global__ void votes(const int* in, int* out) {
      int v = in[blockIdx.x * blockDim.x + threadIdx.x];
      int count = __syncthreads_count(v > 0), all = __syncthreads_and(v > -999), any = __syncthreads_or(v == 7);
      if (threadIdx.x == 0) { out[blockIdx.x * 3] = count; out[blockIdx.x * 3 + 1] = all != 0; out[blockIdx.x * 3 + 2] = any != 0; }
    }
    """)
    data = ints(300)
    data[150] = 7
    out = np.zeros((3, 3), np.int32)
    program.run("votes", 3, 100, data, out)
    rows = data.reshape(3, 100)
    assert np.array_equal(out, np.stack([(rows > 0).sum(1), (rows > -999).all(1), (rows == 7).any(1)], axis=1))


def test_bitonic_sort_with_barriers_matches_numpy() -> None:
    program = Program("""
    extern "C" __global__ void sort(float* keys) {
      __shared__ float s[512];
      int t = threadIdx.x;
      s[t] = keys[blockIdx.x * 512 + t];
      s[t + 256] = keys[blockIdx.x * 512 + t + 256];
      for (int size = 2; size <= 512; size *= 2)
        for (int stride = size / 2; stride; stride /= 2) {
          __syncthreads();
          int p = 2 * t - (t & (stride - 1));
          bool up = (p & size) == 0 || size == 512;
          float a = s[p], b = s[p + stride];
          if ((a > b) == up) { s[p] = b; s[p + stride] = a; }
        }
      __syncthreads();
      keys[blockIdx.x * 512 + t] = s[t];
      keys[blockIdx.x * 512 + t + 256] = s[t + 256];
    }
    """)
    data = random.random(1024, np.float32)
    expected = np.sort(data.reshape(2, 512), axis=1).ravel()
    program.run("sort", 2, 256, data)
    assert np.array_equal(data, expected)
