"""Kernels as CUDA programmers write them, through NVRTC, against NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

random = np.random.default_rng(20)


def ints(count: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return random.integers(low, high, count, dtype=np.int32)


# Blocks.


def test_cub_block_scan_and_reduce() -> None:
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


def test_cub_block_radix_sort() -> None:
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


def test_cub_warp_scan_and_merge_sort() -> None:
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


def test_tiled_matrix_product_in_dynamic_shared_memory() -> None:
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


def test_histogram_with_shared_atomics() -> None:
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


def test_block_reductions_of_the_barrier() -> None:
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


# Grids.

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


def test_single_pass_scan_with_decoupled_look_back() -> None:
    program = Program(LOOK_BACK)
    data = ints(128 * 200)
    out = np.zeros_like(data)
    program.run("scan", 200, 128, data, out, np.zeros(200, np.uint64), np.zeros(1, np.uint32))
    assert np.array_equal(out, np.cumsum(data, dtype=np.int32))


def test_cub_agents_scan_the_whole_device() -> None:
    """CUB's own decoupled look-back, through the tile state and callback that DeviceScan uses."""
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


def test_last_block_finishes_the_sum() -> None:
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


def test_cooperative_groups_sync_the_grid() -> None:
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


# Warps.


def test_cooperative_groups_tiles() -> None:
    program = Program("""
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void tiles(const int* in, int* sums, int* scans, int* odd) {
      auto block = cg::this_thread_block();
      auto tile = cg::tiled_partition<16>(block);
      int i = block.thread_rank(), v = in[i];
      sums[i] = cg::reduce(tile, v, cg::plus<int>());
      scans[i] = cg::exclusive_scan(tile, v, cg::plus<int>());
      odd[i] = 0;
      if (v & 1) {
        auto together = cg::coalesced_threads();
        odd[i] = together.size() * 100 + together.thread_rank();
      }
    }
    """)
    data = ints(128)
    sums, scans, odd = (np.zeros(128, np.int32) for _ in range(3))
    program.run("tiles", 1, 128, data, sums, scans, odd)
    rows = data.reshape(8, 16)
    assert np.array_equal(sums.reshape(8, 16), np.repeat(rows.sum(1, keepdims=True), 16, axis=1))
    assert np.array_equal(scans.reshape(8, 16), np.cumsum(rows, axis=1) - rows)
    mask = (data.reshape(4, 32) & 1).astype(np.int32)
    expected = mask * (mask.sum(1, keepdims=True) * 100 + np.cumsum(mask, axis=1) - mask)
    assert np.array_equal(odd.reshape(4, 32), expected)


def test_multi_warp_tiles() -> None:
    program = Program("""
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void tiles(const int* in, int* sums) {
      __shared__ cg::block_tile_memory<256> memory;
      auto block = cg::this_thread_block(memory);
      auto tile = cg::tiled_partition<64>(block);
      sums[block.thread_rank()] = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
    }
    """)
    data = ints(256)
    sums = np.zeros(256, np.int32)
    program.run("tiles", 1, 256, data, sums)
    assert np.array_equal(sums.reshape(4, 64), np.repeat(data.reshape(4, 64).sum(1, keepdims=True), 64, axis=1))


def test_warp_aggregated_atomics_filter() -> None:
    program = Program("""
    __device__ int reserve(int* count) {
      unsigned mask = __activemask();
      int leader = __ffs(mask) - 1, lane = threadIdx.x & 31, base;
      if (lane == leader) base = atomicAdd(count, __popc(mask));
      base = __shfl_sync(mask, base, leader);
      return base + __popc(mask & ((1u << lane) - 1));
    }
    extern "C" __global__ void filter(const int* in, int n, int* out, int* count) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n && in[i] > 0) out[reserve(count)] = in[i];
    }
    """)
    data = ints(5000)
    out, count = np.zeros_like(data), np.zeros(1, np.int32)
    program.run("filter", 20, 256, data, 5000, out, count)
    kept = data[data > 0]
    assert count[0] == len(kept)
    assert np.array_equal(np.sort(out[: len(kept)]), np.sort(kept))


def test_threads_of_one_warp_take_a_lock_in_turn() -> None:
    program = Program("""
    extern "C" __global__ void locked(int* lock, volatile int* counter, int* seen) {
      bool done = false;
      while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
          __threadfence();
          seen[blockIdx.x * blockDim.x + threadIdx.x] = *counter;
          *counter = *counter + 1;
          __threadfence();
          atomicExch(lock, 0);
          done = true;
        }
      }
    }
    extern "C" __global__ void spins(int* lock, volatile int* counter) {
      while (atomicCAS(lock, 0, 1) != 0) {}
      *counter = *counter + 1;
      __threadfence();
      atomicExch(lock, 0);
    }
    """)
    lock, counter, seen = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(128, np.int32)
    program.run("locked", 2, 64, lock, counter, seen)
    assert counter[0] == 128
    assert np.array_equal(np.sort(seen), np.arange(128))
    counter[0] = 0
    program.run("spins", 2, 64, lock, counter)
    assert counter[0] == 128


def test_producer_and_consumer_in_one_warp() -> None:
    program = Program("""
    extern "C" __global__ void pass(volatile int* flag, int* out) {
      if (threadIdx.x == 7) { while (*flag == 0) {} out[0] = *flag; }
      else if (threadIdx.x == 3) { for (int i = 0; i < 100; i++) __nanosleep(10); *flag = 42; }
    }
    """)
    out = np.zeros(1, np.int32)
    program.run("pass", 1, 32, np.zeros(1, np.int32), out)
    assert out[0] == 42


def test_match_and_ballot_group_equal_keys() -> None:
    program = Program("""
    extern "C" __global__ void groups(const int* key, int* leaders, int* sizes) {
      int i = threadIdx.x;
      unsigned same = __match_any_sync(0xffffffff, key[i]);
      leaders[i] = __ffs(same) - 1;
      sizes[i] = __popc(same) + 100 * __popc(__ballot_sync(0xffffffff, key[i] & 1));
    }
    """)
    keys = ints(32, 0, 5)
    leaders, sizes = np.zeros(32, np.int32), np.zeros(32, np.int32)
    program.run("groups", 1, 32, keys, leaders, sizes)
    assert np.array_equal(leaders, [int(np.flatnonzero(keys == k)[0]) for k in keys])
    assert np.array_equal(sizes, [int((keys == k).sum() + 100 * (keys & 1).sum()) for k in keys])


# libcu++ and asynchronous copies.


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


# Numbers.


def test_half_and_bfloat16_headers() -> None:
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


def test_eight_bit_floats() -> None:
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


def test_math_functions() -> None:
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


def test_fast_math() -> None:
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


def test_wmma_matrix_product() -> None:
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


def test_philox_random_numbers() -> None:
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


# Functions, memory, language.


def test_recursion_and_function_pointers_and_virtual_functions() -> None:
    program = Program("""
    __device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
    __device__ int twice(int x) { return 2 * x; }
    __device__ int square(int x) { return x * x; }
    __device__ int minus(int x) { return -x; }
    using Function = int (*)(int);
    __device__ Function table[] = {twice, square, minus};
    struct Shape { __device__ virtual int area() const = 0; int a, b; };
    struct Box : Shape { __device__ int area() const override { return a * b; } };
    struct Edge : Shape { __device__ int area() const override { return a + b; } };
    extern "C" __global__ void calls(const int* in, int* out) {
      int i = threadIdx.x;
      Function f = table[i % 3];
      alignas(8) char memory[sizeof(Box)];
      Box box; Edge edge;
      box.a = edge.a = in[i]; box.b = edge.b = 3;
      Shape* shape = in[i] & 1 ? (Shape*)&box : (Shape*)&edge;
      out[i] = ackermann(2, i % 4) + 1000 * f(in[i]) + 100000 * shape->area();
    }
    """)
    data = ints(64, 0, 9)
    out = np.zeros_like(data)
    program.run("calls", 1, 64, data, out)

    def expected(i: int, v: int) -> int:
        f = [2 * v, v * v, -v][i % 3]
        return 2 * (i % 4) + 3 + 1000 * f + 100000 * (v * 3 if v & 1 else v + 3)

    assert [int(v) for v in out] == [expected(i, int(v)) for i, v in enumerate(data)]


def test_structures_constants_and_module_variables() -> None:
    program = Program("""
    struct Options { double scale; int shift; char tag[5]; short2 pair; float weights[7]; };
    extern "C" { __constant__ float table[16]; __device__ int total; __managed__ int shared_count = 5; }
    extern "C" __global__ void apply(Options o, const float* in, float* out) {
      int i = threadIdx.x;
      out[i] = in[(i + o.shift) % 32] * (float)o.scale + table[i % 16] + o.weights[i % 7] + o.tag[i % 5] + o.pair.x - o.pair.y;
      atomicAdd(&total, i);
      if (i == 0) shared_count += 2;
    }
    """)
    address, size = program.variable("table")
    assert size == 64
    table = np.arange(16, dtype=np.float32) * 0.5
    device().call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(table.ctypes.data), ctypes.c_size_t(64))

    class Options(ctypes.Structure):
        _fields_ = [
            ("scale", ctypes.c_double),
            ("shift", ctypes.c_int),
            ("tag", ctypes.c_char * 8),  # with the padding before a short2
            ("x", ctypes.c_short),
            ("y", ctypes.c_short),
            ("weights", ctypes.c_float * 7),
        ]

    options = Options(2.0, 3, b"abcde", -7, 9, (ctypes.c_float * 7)(*range(7)))
    data, out = random.random(32, np.float32), np.zeros(32, np.float32)
    program.run("apply", 1, 32, options, data, out)
    i = np.arange(32)
    tags = np.frombuffer(b"abcde", np.uint8).astype(np.float32)
    expected = data[(i + 3) % 32] * 2 + table[i % 16] + (i % 7) + tags[i % 5] - 16
    assert np.allclose(out, expected, rtol=1e-6)
    total = np.zeros(1, np.int32)
    device().call(
        "cuMemcpyDtoH_v2",
        ctypes.c_void_p(total.ctypes.data),
        ctypes.c_uint64(program.variable("total")[0]),
        ctypes.c_size_t(4),
    )
    assert total[0] == 496


def test_device_heap() -> None:
    program = Program("""
    extern "C" __global__ void heap(int* out) {
      int n = threadIdx.x % 7 + 1;
      int* list = new int[n];
      for (int k = 0; k < n; k++) list[k] = threadIdx.x + k;
      char* raw = (char*)malloc(33);
      for (int k = 0; k < 33; k++) raw[k] = k;
      int sum = raw[32];
      for (int k = 0; k < n; k++) sum += list[k];
      delete[] list;
      free(raw);
      out[threadIdx.x] = sum;
    }
    """)
    out = np.zeros(64, np.int32)
    program.run("heap", 1, 64, out)
    assert [int(v) for v in out] == [32 + sum(t + k for k in range(t % 7 + 1)) for t in range(64)]


def test_switch_and_loops_with_divergence() -> None:
    program = Program("""
    extern "C" __global__ void collatz(const int* in, int* out) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      long long v = in[i];
      int steps = 0;
      while (v != 1) {
        if (v & 1) v = 3 * v + 1; else v >>= 1;
        if (++steps > 500) break;
        if (steps % 3 == 2) continue;
        switch (v % 5) { case 0: steps += 0; break; case 3: if (v > 1000000) goto end; default: break; }
      }
    end:
      out[i] = steps;
    }
    """)
    data = ints(256, 1, 100000)
    out = np.zeros_like(data)
    program.run("collatz", 2, 128, data, out)

    def steps(v: int) -> int:
        n = 0
        while v != 1:
            v = 3 * v + 1 if v & 1 else v >> 1
            n += 1
            if n > 500:
                break
            if n % 3 == 2:
                continue
            if v % 5 == 3 and v > 1000000:
                break
        return n

    assert [int(v) for v in out] == [steps(int(v)) for v in data]


def test_printf(capfd: pytest.CaptureFixture[str]) -> None:
    program = Program(
        """
    #include <cstdio>
    extern "C" __global__ void hello(float x) {
      if (threadIdx.x % 16 == 3) printf("thread %d of %s: %5.2f %c %lld %x%%\\n", threadIdx.x, "block", x, 'z', -5000000000ll, 255u);
    }
    """.replace("#include <cstdio>\n", "")
    )
    program.run("hello", 1, 32, 2.5)
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [f"thread {t} of block:  2.50 z -5000000000 ff%" for t in (19, 3)]


def test_launch_shapes() -> None:
    program = Program("""
    extern "C" __global__ void place(int* out) {
      int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
      out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = thread * 1000 + block + 7 * (threadIdx.z == 2);
    }
    """)
    for grid, block in [
        ((3, 2, 2), (5, 3, 3)),
        ((1, 1, 1), (1, 1, 1)),
        ((7, 1, 1), (33, 1, 1)),
        ((2, 1, 3), (4, 8, 4)),
    ]:
        threads, blocks = int(np.prod(block)), int(np.prod(grid))
        out = np.zeros((blocks, threads), np.int32)
        program.run("place", grid, block, out)
        t = np.arange(threads)
        z = 7 * (t // (block[0] * block[1]) == 2)
        assert np.array_equal(out, (t * 1000 + z)[None, :] + np.arange(blocks)[:, None])


def test_bitonic_sort_between_barriers() -> None:
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
