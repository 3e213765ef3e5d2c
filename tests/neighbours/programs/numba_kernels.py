# SPDX-License-Identifier: Apache-2.0
"""Kernels of numba-cuda, and of numba-cuda-mlir with `NEIGHBOUR=numba_cuda_mlir`."""

from __future__ import annotations

import importlib
import math
import os

import numpy as np
from rows import main, row

PACKAGE = os.environ.get("NEIGHBOUR", "numba")
cuda = importlib.import_module(f"{PACKAGE}.cuda")
types = importlib.import_module(f"{PACKAGE}.types")


@row("add")
def add() -> None:
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    a = np.arange(10_001, dtype=np.float32)
    out = np.zeros_like(a)
    kernel[(a.size + 127) // 128, 128](a, a, out)
    np.testing.assert_array_equal(out, a + a)


@row("shared memory")
def shared_memory() -> None:
    float32 = types.float32

    @cuda.jit
    def kernel(x, out):
        part = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        part[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 64
        while step > 0:
            if t < step:
                part[t] += part[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])

    x = np.random.default_rng(1).random(1024).astype(np.float32)
    out = np.zeros(1, np.float32)
    kernel[8, 128](x, out)
    np.testing.assert_allclose(out[0], x.sum(), rtol=1e-5)


@row("device functions and math")
def device_functions() -> None:
    @cuda.jit(device=True)
    def wave(v):
        return math.sin(v) * math.exp(-v)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = wave(x[i])

    x = np.linspace(0, 3, 500)
    out = np.zeros_like(x)
    kernel[4, 128](x, out)
    np.testing.assert_allclose(out, np.sin(x) * np.exp(-x), rtol=1e-12)


@row("atomics")
def atomics() -> None:
    @cuda.jit
    def kernel(x, counts):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(counts, x[i], 1)

    x = np.random.default_rng(2).integers(0, 16, 4096).astype(np.int32)
    counts = np.zeros(16, np.int32)
    kernel[32, 128](x, counts)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=16))


@row("warp shuffles")
def warp_shuffles() -> None:
    @cuda.jit
    def kernel(x, out):
        value = x[cuda.grid(1)]
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        if cuda.laneid == 0:
            out[cuda.grid(1) // 32] = value

    x = np.arange(256, dtype=np.int32)
    out = np.zeros(8, np.int32)
    kernel[2, 128](x, out)
    np.testing.assert_array_equal(out, x.reshape(8, 32).sum(1))


if PACKAGE == "numba":

    @row("grid synchronization")
    def grid_synchronization() -> None:
        @cuda.jit("void(int32[:, :])")
        def kernel(matrix):
            column = cuda.grid(1)
            grid = cuda.cg.this_grid()
            for line in range(1, matrix.shape[0]):
                other = matrix.shape[1] - column - 1
                matrix[line, column] = matrix[line - 1, other] + 1
                grid.sync()

        matrix = np.zeros((64, 128), np.int32)
        kernel[2, 64](matrix)
        np.testing.assert_array_equal(matrix, np.tile(np.arange(64, dtype=np.int32)[:, None], (1, 128)))

    @row("streams and events")
    def streams_and_events() -> None:
        @cuda.jit
        def kernel(x):
            x[cuda.grid(1)] *= 2

        stream = cuda.stream()
        x = cuda.to_device(np.ones(256, np.float32), stream=stream)
        before, after = cuda.event(), cuda.event()
        before.record(stream)
        kernel[2, 128, stream](x)
        after.record(stream)
        after.synchronize()
        assert cuda.event_elapsed_time(before, after) >= 0
        np.testing.assert_array_equal(x.copy_to_host(stream=stream), np.full(256, 2, np.float32))


if __name__ == "__main__":
    main()
