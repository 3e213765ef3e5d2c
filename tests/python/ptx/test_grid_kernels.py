# SPDX-License-Identifier: Apache-2.0
"""Grid-level kernels (decoupled look-back, grid sync, last block), compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import ints
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program, device

skip_module_without_nvrtc()


LOOK_BACK = """
#include <cuda/atomic>
#include <cub/block/block_scan.cuh>
struct State { cuda::atomic<unsigned long long, cuda::thread_scope_device> word; };
extern "C" __global__ void scan(const int* in, int* out, State* states, unsigned* ticket) {
  __shared__ cub::BlockScan<int, 128>::TempStorage temp;
  __shared__ int tile, before;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();
  int i = tile * 128 + threadIdx.x, value = in[i], inclusive, total;
  cub::BlockScan<int, 128>(temp).InclusiveSum(value, inclusive, total);
  if (threadIdx.x == 0) {
    unsigned long long own = (unsigned)total;
    states[tile].word.store((tile ? 1ull : 2ull) << 32 | own, cuda::memory_order_release);
    int sum = 0;
    for (int k = tile - 1; k >= 0; k--) {
      unsigned long long seen;
      while (((seen = states[k].word.load(cuda::memory_order_acquire)) >> 32) == 0) __nanosleep(20);
      sum += (int)(unsigned)seen;
      if (seen >> 32 == 2) break;
    }
    if (tile) states[tile].word.store(2ull << 32 | (unsigned)(sum + total), cuda::memory_order_release);
    before = sum;
  }
  __syncthreads();
  out[i] = before + inclusive;
}
"""


def test_single_pass_scan_with_decoupled_look_back_matches_numpy() -> None:
    program = Program(LOOK_BACK)
    data = ints(128 * 200)
    out = np.zeros_like(data)
    program.run("scan", 200, 128, data, out, np.zeros(200, np.uint64), np.zeros(1, np.uint32))
    assert np.array_equal(out, np.cumsum(data, dtype=np.int32))


def test_cub_device_scan_matches_numpy() -> None:
    """CUB's decoupled look-back with the tile state and callback of DeviceScan."""
    program = Program("""
    #include <cub/agent/single_pass_scan_operators.cuh>
    #include <cub/block/block_scan.cuh>
    using Tiles = cub::ScanTileState<int>;
    using Prefix = cub::TilePrefixCallbackOp<int, ::cuda::std::plus<>, Tiles>;
    extern "C" __global__ void prepare(void* storage, int tiles) {
      Tiles state;
      size_t bytes;
      Tiles::AllocationSize(tiles, bytes);
      state.Init(tiles, storage, bytes);
      state.InitializeStatus(tiles);
    }
    extern "C" __global__ void scan(const int* in, int* out, void* storage, int tiles) {
      using Scan = cub::BlockScan<int, 128>;
      __shared__ union { Scan::TempStorage scan; } temp;
      __shared__ Prefix::TempStorage prefix;
      Tiles state;
      size_t bytes;
      Tiles::AllocationSize(tiles, bytes);
      state.Init(tiles, storage, bytes);
      int tile = blockIdx.x, i = tile * 128 + threadIdx.x, v = in[i], result;
      if (tile == 0) {
        int total;
        Scan(temp.scan).InclusiveSum(v, result, total);
        if (threadIdx.x == 0) state.SetInclusive(0, total);
      } else {
        Prefix callback(state, prefix, ::cuda::std::plus<>{});
        Scan(temp.scan).InclusiveScan(v, result, ::cuda::std::plus<>{}, callback);
      }
      out[i] = result;
    }
    """)
    data = ints(128 * 64)
    out = np.zeros_like(data)
    storage = device().memory(1 << 16)
    program.run("prepare", 1, 128, storage.address, 64)
    program.run("scan", 64, 128, data, out, storage.address, 64)
    storage.free()
    assert np.array_equal(out, np.cumsum(data, dtype=np.int32))


def test_sum_finished_by_the_last_block_matches_numpy() -> None:
    program = Program("""
    __device__ unsigned arrived = 0;
    extern "C" __global__ void sum(const int* in, int n, volatile int* parts, int* out) {
      __shared__ int tile[64];
      __shared__ bool last;
      int s = 0;
      for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) s += in[i];
      tile[threadIdx.x] = s;
      __syncthreads();
      for (int h = 32; h; h /= 2) { if (threadIdx.x < h) tile[threadIdx.x] += tile[threadIdx.x + h]; __syncthreads(); }
      if (threadIdx.x == 0) {
        parts[blockIdx.x] = tile[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
      }
      __syncthreads();
      if (last && threadIdx.x == 0) { int t = 0; for (int k = 0; k < gridDim.x; k++) t += parts[k]; *out = t; arrived = 0; }
    }
    """)
    data = ints(9999)
    out = np.zeros(1, np.int32)
    for _ in range(3):
        program.run("sum", 37, 64, data, len(data), np.zeros(37, np.int32), out)
        assert out[0] == data.sum()


def test_cooperative_groups_grid_sync_orders_blocks() -> None:
    program = Program("""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void steps(int* data, int n, int rounds) {
      cg::grid_group grid = cg::this_grid();
      for (int r = 0; r < rounds; r++) {
        int i = grid.thread_rank(), v = data[(i + 1) % n] + data[i];
        grid.sync();
        data[i] = v;
        grid.sync();
      }
    }
    """)
    data = ints(512, 0, 3)
    expected = data.copy()
    for _ in range(5):
        expected = expected + np.roll(expected, -1)
    program.run("steps", 8, 64, data, 512, 5, cooperative=True)
    assert np.array_equal(data, expected)
