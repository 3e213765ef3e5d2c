# SPDX-License-Identifier: Apache-2.0
"""Warp-level kernels (tiles, votes, locks), compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import numpy as np
from ptxsuite.data import ints
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


def test_cooperative_groups_tiles_match_numpy() -> None:
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


def test_multi_warp_tiles_match_numpy() -> None:
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


def test_warp_aggregated_atomics_filter_matches_numpy() -> None:
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


def test_threads_of_one_warp_take_a_spin_lock_in_turn() -> None:
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


def test_producer_and_consumer_in_one_warp_make_progress() -> None:
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


def test_labeled_and_binary_partitions_group_equal_threads() -> None:
    """Partitions by label and by a bit, and the coalesced threads of a branch."""
    program = Program("""
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void groups(const int* in, int* out) {
      auto block = cg::this_thread_block();
      int i = block.group_index().x * block.size() + block.thread_rank(), x = in[i];
      auto warp = cg::tiled_partition<32>(block);
      auto same = cg::labeled_partition(warp, x % 5);
      auto half = cg::binary_partition(warp, x & 1);
      out[6 * i] = cg::reduce(same, x, cg::plus<int>());
      out[6 * i + 1] = cg::reduce(half, x, cg::greater<int>());
      out[6 * i + 2] = half.thread_rank() + 100 * half.size();
      if (x % 3 == 0) {
        auto here = cg::coalesced_threads();
        out[6 * i + 3] = cg::exclusive_scan(here, x, cg::plus<int>()) + 1000 * here.size() + here.shfl(x, 0);
      }
      auto eight = cg::tiled_partition<8>(block);
      out[6 * i + 4] = eight.ballot(x & 4) | eight.any(x == 7) << 8 | (eight.all(x > 2) != 0) << 9;
      out[6 * i + 5] = cg::tiled_partition<4>(eight).match_any(x & 1);
    }
    """)
    data, out = ints(96 * 3, 0, 20), np.zeros((96 * 3, 6), np.int32)
    program.run("groups", 3, 96, data, out)
    for first in range(0, len(data), 32):
        x = data[first : first + 32]
        for lane in range(32):
            half, branch = x & 1 == x[lane] & 1, x % 3 == 0
            wanted = [x[x % 5 == x[lane] % 5].sum(), x[half].max(), half[:lane].sum() + 100 * half.sum(), 0]
            if branch[lane]:
                wanted[3] = x[:lane][branch[:lane]].sum() + 1000 * branch.sum() + x[branch][0]
            eight, four = x[lane // 8 * 8 :][:8], x[lane // 4 * 4 :][:4]
            votes = sum(1 << k for k in range(8) if eight[k] & 4)
            wanted.append(votes | int((eight == 7).any()) << 8 | int((eight > 2).all()) << 9)
            wanted.append(sum(1 << k for k in range(4) if four[k] & 1 == x[lane] & 1))
            assert list(out[first + lane]) == wanted
