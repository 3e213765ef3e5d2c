# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ language features: calls, structures, the heap, printf, launch shapes, compiled with NVRTC, compared with NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ptxsuite.data import ints, random
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program, device

skip_module_without_nvrtc()


def test_recursion_function_pointers_and_virtual_functions_work() -> None:
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


def test_structures_constants_and_module_variables_work() -> None:
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
            ("tag", ctypes.c_char * 8),  # includes the padding before a short2
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


def test_device_heap_allocates_and_frees() -> None:
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


def test_divergent_switch_and_loops_compute_the_result() -> None:
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


def test_printf_formats_its_arguments(capfd: pytest.CaptureFixture[str]) -> None:
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


def test_every_launch_shape_computes_the_result() -> None:
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


def test_threads_keep_values_of_the_iteration_before_their_last() -> None:
    """Threads leave the outer loop in different iterations, and no instruction of its last block uses the initial value."""
    program = Program("""
    extern "C" __global__ void turns(const int* in, int* before, int* after) {
      int i = threadIdx.x, b = in[i], c = 0;
      for (int k = 0; k < (i & 3) + 1; ++k) {
        c = b;
        for (int j = 0; j < (i & 3) + 1; ++j) b += in[(j * 22 + i) & 127] * b;
      }
      before[i] = c;
      after[i] = b;
    }
    """)
    given = np.arange(128, dtype=np.int32) % 5 + 1
    before, after = np.zeros(128, np.int32), np.zeros(128, np.int32)
    program.run("turns", 1, 128, given, before, after)
    for i in range(128):
        b = c = int(given[i])
        for _ in range((i & 3) + 1):
            c = b
            for j in range((i & 3) + 1):
                b += int(given[(j * 22 + i) & 127]) * b
        wanted = np.array([c, b], np.int64).astype(np.int32)
        assert (before[i], after[i]) == (wanted[0], wanted[1]), i
