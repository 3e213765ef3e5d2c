# SPDX-License-Identifier: Apache-2.0
"""Further kernels with CUB, cooperative groups, libcu++ and half precision, compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import itertools

import numpy as np
from ptxsuite.data import ints, random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_cub_exchange_difference_and_run_length_match_numpy() -> None:
    program = Program("""
    #include <cub/block/block_adjacent_difference.cuh>
    #include <cub/block/block_discontinuity.cuh>
    #include <cub/block/block_exchange.cuh>
    #include <cub/block/block_run_length_decode.cuh>
    #include <cub/block/block_shuffle.cuh>
    struct Minus { __device__ int operator()(int a, int b) const { return a - b; } };
    struct Differ { __device__ bool operator()(int a, int b) const { return a != b; } };
    extern "C" __global__ void blocks(const int* in, int* striped, int* steps, int* heads, int* moved) {
      using Exchange = cub::BlockExchange<int, 64, 4>;
      using Difference = cub::BlockAdjacentDifference<int, 64>;
      using Heads = cub::BlockDiscontinuity<int, 64>;
      using Shuffle = cub::BlockShuffle<int, 64>;
      __shared__ union { Exchange::TempStorage e; Difference::TempStorage d; Heads::TempStorage h; Shuffle::TempStorage s; } t;
      int base = threadIdx.x * 4, items[4], out[4], flags[4], up;
      for (int k = 0; k < 4; ++k) items[k] = in[base + k];
      Exchange(t.e).BlockedToStriped(items, out);
      for (int k = 0; k < 4; ++k) striped[base + k] = out[k];
      __syncthreads();
      Difference(t.d).SubtractLeft(items, out, Minus());
      for (int k = 0; k < 4; ++k) steps[base + k] = out[k];
      __syncthreads();
      Heads(t.h).FlagHeads(flags, items, Differ());
      for (int k = 0; k < 4; ++k) heads[base + k] = flags[k];
      __syncthreads();
      up = items[0];
      Shuffle(t.s).Offset(items[0], up, 3);
      moved[threadIdx.x] = up;
    }
    extern "C" __global__ void runs(const int* values, const unsigned* lengths, int* out, unsigned* total) {
      using Decode = cub::BlockRunLengthDecode<int, 32, 2, 4>;
      __shared__ Decode::TempStorage t;
      int mine[2] = {values[threadIdx.x * 2], values[threadIdx.x * 2 + 1]}, decoded[4];
      unsigned counts[2] = {lengths[threadIdx.x * 2], lengths[threadIdx.x * 2 + 1]}, size = 0;
      Decode decode(t, mine, counts, size);
      for (unsigned at = 0; at < size; at += 128) {
        decode.RunLengthDecode(decoded, at);
        for (int k = 0; k < 4; ++k)
          if (at + threadIdx.x * 4 + k < size) out[at + threadIdx.x * 4 + k] = decoded[k];
      }
      if (threadIdx.x == 0) *total = size;
    }
    """)
    data = ints(256, 0, 3)
    striped, steps, heads, moved = (np.zeros(size, np.int32) for size in (256, 256, 256, 64))
    program.run("blocks", 1, 64, data, striped, steps, heads, moved)
    assert np.array_equal(striped, data.reshape(4, 64).T.ravel())
    assert np.array_equal(steps[1:], np.diff(data)) and steps[0] == data[0]
    assert np.array_equal(heads, np.concatenate([[1], data[1:] != data[:-1]]))
    assert np.array_equal(moved[:61], data[::4][3:])
    values, lengths = ints(64), ints(64, 1, 9).astype(np.uint32)
    out, total = np.zeros(1024, np.int32), np.zeros(1, np.uint32)
    program.run("runs", 1, 32, values, lengths, out, total)
    assert total[0] == lengths.sum()
    assert np.array_equal(out[: total[0]], np.repeat(values, lengths))


def test_cub_merge_sort_and_segmented_warp_reduce_match_numpy() -> None:
    program = Program("""
    #include <cub/block/block_merge_sort.cuh>
    #include <cub/warp/warp_exchange.cuh>
    #include <cub/warp/warp_reduce.cuh>
    struct Less { __device__ bool operator()(double a, double b) const { return a < b; } };
    extern "C" __global__ void pairs(double* keys, int* values, int n) {
      using Sort = cub::BlockMergeSort<double, 128, 3, int>;
      __shared__ Sort::TempStorage t;
      double k[3];
      int v[3];
      for (int i = 0; i < 3; ++i) {
        int at = threadIdx.x * 3 + i;
        k[i] = at < n ? keys[at] : 1e300;
        v[i] = at < n ? values[at] : -1;
      }
      Sort(t).StableSort(k, v, Less(), n, 1e300);
      for (int i = 0; i < 3; ++i)
        if (int at = threadIdx.x * 3 + i; at < n) keys[at] = k[i], values[at] = v[i];
    }
    extern "C" __global__ void warps(const int* in, int* sums, int* turned) {
      using Reduce = cub::WarpReduce<int>;
      using Exchange = cub::WarpExchange<int, 2, 32>;
      __shared__ Reduce::TempStorage r[2];
      __shared__ Exchange::TempStorage e[2];
      int warp = threadIdx.x / 32, v = in[threadIdx.x];
      sums[threadIdx.x] = Reduce(r[warp]).HeadSegmentedSum(v, v % 4 == 0);
      int items[2] = {v, -v};
      Exchange(e[warp]).BlockedToStriped(items, items);
      turned[threadIdx.x * 2] = items[0], turned[threadIdx.x * 2 + 1] = items[1];
    }
    """)
    n = 350
    keys, values = np.round(random.random(384), 2), np.arange(384, dtype=np.int32)
    order = np.argsort(keys[:n], kind="stable")
    expected = keys[:n][order]
    program.run("pairs", 1, 128, keys, values, n)
    assert np.array_equal(keys[:n], expected) and np.array_equal(values[:n], order)
    data = ints(64, 0, 20)
    sums, turned = np.zeros(64, np.int32), np.zeros(128, np.int32)
    program.run("warps", 1, 64, data, sums, turned)
    for first in (0, 32):
        heads = [first, *(i for i in range(first + 1, first + 32) if data[i] % 4 == 0), first + 32]
        assert [sums[a] for a in heads[:-1]] == [data[a:b].sum() for a, b in itertools.pairwise(heads)]
    both = np.stack([data, -data], axis=1).reshape(2, 64)
    assert np.array_equal(turned.reshape(2, 64), both.reshape(2, 2, 32).transpose(0, 2, 1).reshape(2, 64))


def test_cooperative_groups_reduce_scan_and_copy_match_numpy() -> None:
    program = Program("""
    #include <cooperative_groups.h>
    #include <cooperative_groups/memcpy_async.h>
    #include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    #include <cuda/atomic>
    #include <cuda/barrier>
    #include <cuda/std/utility>
    namespace cg = cooperative_groups;
    extern "C" __global__ void groups(const int* in, int* scans, int* sums, int* ranks, int* once) {
      __shared__ int tile[128];
      auto block = cg::this_thread_block();
      cg::memcpy_async(block, tile, in + blockIdx.x * 128, cuda::aligned_size_t<16>(sizeof tile));
      cg::wait(block);
      int i = blockIdx.x * 128 + block.thread_rank(), v = tile[block.thread_rank()];
      auto eight = cg::tiled_partition<8>(block);
      scans[i] = cg::exclusive_scan(eight, v);
      cg::reduce_update_async(eight, cuda::atomic_ref<int, cuda::thread_scope_device>(sums[0]), v, cg::plus<int>());
      auto warp = cg::tiled_partition<32>(block);
      auto label = cg::labeled_partition(warp, v % 5);
      ranks[i] = label.thread_rank() * 100 + label.size();
      if (v % 2) {
        auto odd = cg::coalesced_threads();
        int most = cg::reduce(odd, v, cg::greater<int>());
        cg::invoke_one(odd, [&] { atomicMax(sums + 1, most); });
      }
      cg::invoke_one(block, [&] { atomicAdd(once, 1); });
    }
    extern "C" __global__ void counts(const int* in, int* histogram, int n) {
      auto grid = cg::this_grid();
      __shared__ int local[8];
      auto block = cg::this_thread_block();
      if (block.thread_rank() < 8) local[block.thread_rank()] = 0;
      block.sync();
      for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) atomicAdd(local + in[i] % 8, 1);
      auto token = block.barrier_arrive();
      block.barrier_wait(cuda::std::move(token));
      if (block.thread_rank() < 8) atomicAdd(histogram + block.thread_rank(), local[block.thread_rank()]);
      grid.sync();
      if (grid.thread_rank() == 0)
        for (int k = 1; k < 8; ++k) histogram[k] += histogram[k - 1];
    }
    """)
    data = ints(512, 0, 1000)
    scans, sums, ranks, once = (np.zeros(size, np.int32) for size in (512, 2, 512, 1))
    program.run("groups", 4, 128, data, scans, sums, ranks, once)
    rows = data.reshape(-1, 8)
    assert np.array_equal(scans.reshape(-1, 8), np.cumsum(rows, axis=1) - rows)
    assert list(sums) == [data.sum(), data[data % 2 == 1].max()] and once[0] == 4
    for warp, found in zip(data.reshape(-1, 32), ranks.reshape(-1, 32), strict=True):
        for lane in range(32):
            same = warp % 5 == warp[lane] % 5
            assert found[lane] == same[:lane].sum() * 100 + same.sum()
    histogram = np.zeros(8, np.int32)
    program.run("counts", 3, 64, data, histogram, 512, cooperative=True)
    assert np.array_equal(histogram, np.cumsum(np.bincount(data % 8, minlength=8)))


def test_libcuxx_latch_and_semaphore_order_threads() -> None:
    program = Program("""
    #include <cuda/barrier>
    #include <cuda/latch>
    #include <cuda/pipeline>
    #include <cuda/semaphore>
    #include <cooperative_groups.h>
    extern "C" __global__ void meet(int* order, int* inside) {
      using Latch = cuda::latch<cuda::thread_scope_block>;
      using Semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 2>;
      __shared__ alignas(Latch) char latch_bytes[sizeof(Latch)];
      __shared__ alignas(Semaphore) char semaphore_bytes[sizeof(Semaphore)];
      Latch& gate = *reinterpret_cast<Latch*>(latch_bytes);
      Semaphore& room = *reinterpret_cast<Semaphore*>(semaphore_bytes);
      __shared__ int now, most;
      if (threadIdx.x == 0) new (&gate) Latch(blockDim.x), new (&room) Semaphore(2), now = most = 0;
      __syncthreads();
      order[threadIdx.x] = threadIdx.x + 1;
      gate.arrive_and_wait();
      int next = order[(threadIdx.x + 1) % blockDim.x];
      room.acquire();
      atomicMax(&most, atomicAdd(&now, 1) + 1);
      atomicAdd(&now, -1);
      room.release();
      __syncthreads();
      order[threadIdx.x] += next;
      if (threadIdx.x == 0) *inside = most;
    }
    extern "C" __global__ void roles(const int* in, int* out, int tiles) {
      constexpr auto scope = cuda::thread_scope_block;
      __shared__ cuda::pipeline_shared_state<scope, 2> state;
      __shared__ int stage[2][64];
      auto block = cooperative_groups::this_thread_block();
      auto pipe = cuda::make_pipeline(block, &state, threadIdx.x < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
      for (int k = 0; k < tiles; ++k) {
        if (threadIdx.x < 64) {
          pipe.producer_acquire();
          cuda::memcpy_async(&stage[k % 2][threadIdx.x], in + k * 64 + threadIdx.x, sizeof(int), pipe);
          pipe.producer_commit();
        } else {
          pipe.consumer_wait();
          int t = threadIdx.x - 64;
          out[k * 64 + t] = stage[k % 2][63 - t] * (k + 1);
          pipe.consumer_release();
        }
      }
    }
    """)
    order, inside = np.zeros(96, np.int32), np.zeros(1, np.int32)
    program.run("meet", 1, 96, order, inside)
    first = np.arange(1, 97)
    assert np.array_equal(order, first + np.roll(first, -1)) and 1 <= inside[0] <= 2
    data, out = ints(320), np.zeros(320, np.int32)
    program.run("roles", 1, 128, data, out, 5)
    assert np.array_equal(out.reshape(5, 64), data.reshape(5, 64)[:, ::-1] * np.arange(1, 6)[:, None])


def test_libcuxx_standard_library_matches_python() -> None:
    program = Program("""
    #include <cuda/std/array>
    #include <cuda/std/bit>
    #include <cuda/std/complex>
    #include <cuda/std/expected>
    #include <cuda/std/functional>
    #include <cuda/std/mdspan>
    #include <cuda/std/numeric>
    #include <cuda/std/optional>
    #include <cuda/std/tuple>
    #include <cuda/std/variant>
    namespace std_ = cuda::std;
    __device__ std_::expected<int, float> halved(int v) {
      if (v % 2) return std_::unexpected<float>(v * 0.5f);
      return v / 2;
    }
    struct Weight {
      __device__ float operator()(int v) const { return v; }
      __device__ float operator()(float v) const { return -v; }
    };
    extern "C" __global__ void values(const int* in, float* out, int n) {
      int i = threadIdx.x, v = in[i];
      auto result = halved(v);
      std_::variant<int, float> either;
      if (result) either = *result; else either = result.error();
      std_::optional<int> bits = v ? std_::optional<int>(std_::popcount(unsigned(v))) : std_::nullopt;
      auto [low, high] = std_::make_tuple(std_::countr_zero(unsigned(v | 1024)), std_::bit_width(unsigned(v)));
      out[i] = std_::visit(Weight(), either) + bits.value_or(100) * 1000 + low * 0.25f + high * 0.0625f;
    }
    extern "C" __global__ void grid(const float* in, float* out, int rows, int columns) {
      std_::mdspan<const float, std_::dextents<int, 2>> a(in, rows, columns);
      std_::mdspan<float, std_::dextents<int, 2>, std_::layout_left> b(out, rows, columns);
      for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
        int r = i / columns, c = i % columns;
        std_::complex<float> z(a(r, c), 1.0f);
        b(r, c) = std_::norm(z * std_::conj(z)) + std_::gcd(r + 1, c + 1);
      }
    }
    """)
    data = np.concatenate([ints(62, 0, 1 << 20), [0, 1024]]).astype(np.int32)
    out = np.zeros(64, np.float32)
    program.run("values", 1, 64, data, out, 64)
    for v, got in zip(data.tolist(), out.tolist(), strict=True):
        weight = v // 2 if v % 2 == 0 else -0.5 * v
        low, bits = ((v | 1024) & -(v | 1024)).bit_length() - 1, v.bit_count() if v else 100
        total = np.float32(np.float32(weight + bits * 1000) + np.float32(low * 0.25)) + np.float32(
            v.bit_length() * 0.0625
        )
        assert got == np.float32(total), v
    a = random.random((5, 7), np.float32)
    b = np.zeros(35, np.float32)
    program.run("grid", 1, 32, a, b, 5, 7)
    norm = (a.astype(np.float64) ** 2 + 1) ** 2 + np.gcd.outer(np.arange(1, 6), np.arange(1, 8))
    np.testing.assert_allclose(b.reshape(7, 5).T, norm, rtol=1e-6)


def test_half_functions_comparisons_and_atomics_match_numpy() -> None:
    program = Program("""
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    extern "C" __global__ void functions(const __half* in, __half* out, int n) {
      int i = threadIdx.x;
      __half x = in[i];
      __half r[8] = {hexp(x), hlog(x), hsqrt(x), hsin(x), hcos(x), hrcp(x), hrsqrt(x), htanh(x)};
      for (int k = 0; k < 8; ++k) out[k * n + i] = r[k];
    }
    extern "C" __global__ void pairs(const __half2* in, __half2* out, unsigned* masks, float* sums) {
      int i = threadIdx.x;
      __half2 x = in[i], y = __shfl_xor_sync(~0u, x, 1);
      out[i] = __hfma2_relu(x, y, __hneg2(x));
      masks[i] = __hgt2_mask(x, y) | (__heq2_mask(x, x) & 0x00010001);
      __nv_bfloat162 b = __floats2bfloat162_rn(__low2float(x), __high2float(x));
      float2 back = __bfloat1622float2(__hmax2(b, __hmul2(b, b)));
      atomicAdd(sums, back.x + back.y);
      atomicAdd(reinterpret_cast<__half2*>(sums + 1), __floats2half2_rn(1.0f, 2.0f));
      atomicAdd(reinterpret_cast<__nv_bfloat16*>(sums + 2), __float2bfloat16(0.5f));
    }
    """)
    x = (random.random(64, np.float32) * 3 + 0.25).astype(np.float16)
    out = np.zeros((8, 64), np.float16)
    program.run("functions", 1, 64, x, out, 64)
    wide = x.astype(np.float64)
    truth = [np.exp(wide), np.log(wide), np.sqrt(wide), np.sin(wide), np.cos(wide), 1 / wide, wide**-0.5, np.tanh(wide)]
    for got, want in zip(out, truth, strict=True):
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=2e-3, atol=2e-3)
    pairs = (ints(64, -8, 8) * 0.25).astype(np.float16).reshape(32, 2)
    made, masks, sums = np.zeros_like(pairs), np.zeros(32, np.uint32), np.zeros(3, np.float32)
    program.run("pairs", 1, 32, pairs, made, masks, sums)
    other = pairs.reshape(16, 2, 2)[:, ::-1].reshape(32, 2)
    assert np.array_equal(made, np.maximum(pairs * other - pairs, 0))
    lanes = np.where(pairs > other, 0xFFFF, 1).astype(np.uint32)
    assert np.array_equal(masks, lanes[:, 0] | lanes[:, 1] << 16)
    assert sums[0] == np.maximum(pairs, pairs * pairs).astype(np.float32).sum()
    assert list(sums[1:2].view(np.float16)) == [32, 64] and sums[2:].view(np.uint32)[0] == 0x4180
