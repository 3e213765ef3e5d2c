# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the device of CUCORE_DEVICE and compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from cuda.core import Device, Kernel, Program, ProgramOptions

SOURCE = r"""
extern "C" __global__ void scale(float* data, float factor, size_t n) {
  size_t i = threadIdx.x + blockIdx.x * size_t(blockDim.x);
  if (i < n) data[i] *= factor;
}
extern "C" __global__ void add_one(int* data, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) data[i] += 1;
}
struct Pair { int a; double b; };
extern "C" __global__ void unpack(double* out, Pair p, bool flag, double2 c, signed char small, unsigned short mid) {
  out[0] = p.a; out[1] = p.b; out[2] = flag; out[3] = c.x; out[4] = c.y; out[5] = small; out[6] = mid;
}
extern "C" __global__ void widths(long long* out, int a, unsigned long long b, long long c) {
  out[0] = a; out[1] = (long long)b; out[2] = c;
}
extern "C" __global__ void nothing() {}
// Two launches that wait for each other; out[mine] is 0 where the other never came.
extern "C" __global__ void meet(int* flags, int* out, int mine) {
  atomicExch(&flags[mine], 1);
  out[mine] = 0;
  for (int i = 0; i < (1 << 26) && !out[mine]; ++i) out[mine] = atomicAdd(&flags[1 - mine], 0);
}
// Reads only: on a GPU an atomic operation on the host's memory is a read and a write, between which a store of the host is lost.
extern "C" __global__ void spin(volatile int* flag) { while (*flag == 0) {} }
"""


@lru_cache(maxsize=1)
def compiled() -> Any:
    return Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{Device(0).arch}")).compile("cubin")


@pytest.fixture
def kernel(device: Device) -> Callable[[str], Kernel]:
    return lambda name: compiled().get_kernel(name)
