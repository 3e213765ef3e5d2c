# SPDX-License-Identifier: Apache-2.0
"""nanosleep takes about the requested time and lets other threads run."""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

SOURCE = r"""
__device__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }

extern "C" __global__ void nap(long long* took, int nanoseconds, int times) {
  long long start = now();
  for (int k = 0; k < times; ++k) __nanosleep(nanoseconds);
  took[blockIdx.x * blockDim.x + threadIdx.x] = now() - start;
}

extern "C" __global__ void wait_for_all(int* arrived, int* seen, int nanoseconds) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    while (atomicAdd(arrived, 0) < (int)gridDim.x - 1) __nanosleep(nanoseconds);
    *seen = 1;
  } else {
    atomicAdd(arrived, 1);
  }
}

extern "C" __global__ void wait_in_a_warp(int* out, int nanoseconds) {
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x == 5) {
    for (int k = 0; k < 20; ++k) __nanosleep(nanoseconds);
    ready = 1;
  } else {
    while (!ready) __nanosleep(nanoseconds);
  }
  out[threadIdx.x] = ready;
}
"""


@pytest.fixture
def program(any_width: str) -> Program:
    return Program(SOURCE)


def test_nanosleep_takes_about_the_requested_time(program: Program) -> None:
    took = np.zeros(1, np.int64)
    program.run("nap", 1, 1, took, 1_000_000, 20)
    assert took[0] > 20 * 1_000_000 / 4  # the manual: between zero and twice the time


def test_nanosleep_is_limited_to_a_millisecond(program: Program) -> None:
    short, long = np.zeros(1, np.int64), np.zeros(1, np.int64)
    program.run("nap", 1, 1, short, 1_000_000, 20)
    program.run("nap", 1, 1, long, 2_000_000_000, 20)
    assert long[0] < 20 * short[0]


def test_threads_and_blocks_sleep_concurrently(program: Program) -> None:
    alone, many = np.zeros(1, np.int64), np.zeros(64 * 32, np.int64)
    program.run("nap", 1, 1, alone, 1_000_000, 10)
    program.run("nap", 64, 32, many, 1_000_000, 10)
    assert many.min() > 10 * 1_000_000 / 4
    assert many.max() < 64 * alone[0]  # sequential sleeping would take 2,048 times as long


@pytest.mark.parametrize("nanoseconds", [0, 20, 100_000])
def test_sleeping_block_lets_other_blocks_run(program: Program, nanoseconds: int) -> None:
    arrived, seen = np.zeros(1, np.int32), np.zeros(1, np.int32)
    program.run("wait_for_all", 300, 64, arrived, seen, nanoseconds)
    assert seen[0] == 1


@pytest.mark.parametrize("nanoseconds", [0, 20, 100_000])
def test_sleeping_lanes_let_another_lane_run(program: Program, nanoseconds: int) -> None:
    out = np.zeros(64, np.int32)
    program.run("wait_in_a_warp", 1, 64, out, nanoseconds)
    assert out.all()
