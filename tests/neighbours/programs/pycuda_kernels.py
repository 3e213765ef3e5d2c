# SPDX-License-Identifier: Apache-2.0
"""PyCUDA: kernels of nvcc, arrays, and the kernels that it generates."""

from __future__ import annotations

import numpy as np
import pycuda.autoinit  # noqa: F401  makes a context
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel
from rows import main, row


@row("SourceModule")
def source_module() -> None:
    module = SourceModule("""
      __constant__ float factor;
      __global__ void multiply(float* to, const float* a, const float* b) {
        const int i = threadIdx.x;
        to[i] = a[i] * b[i] * factor;
      }""")
    address, size = module.get_global("factor")
    assert size == 4
    cuda.memcpy_htod(address, np.float32(2))
    a, b = (np.random.default_rng(n).random(400, np.float32) for n in (1, 2))
    to = np.zeros_like(a)
    module.get_function("multiply")(cuda.Out(to), cuda.In(a), cuda.In(b), block=(400, 1, 1), grid=(1, 1))
    assert np.allclose(to, a * b * 2)


@row("shared memory")
def shared_memory() -> None:
    module = SourceModule("""
      extern __shared__ int room[];
      __global__ void reverse(int* values) {
        room[threadIdx.x] = values[threadIdx.x];
        __syncthreads();
        values[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
      }""")
    values = np.arange(256, dtype=np.int32)
    module.get_function("reverse")(cuda.InOut(values), block=(256, 1, 1), shared=1024)
    assert np.array_equal(values, np.arange(256)[::-1])


@row("gpuarray")
def arrays() -> None:
    a, b = (np.random.default_rng(n).random((50, 40), np.float32) for n in (3, 4))
    there = gpuarray.to_gpu(a) * 3 + gpuarray.to_gpu(b)
    assert np.allclose(there.get(), a * 3 + b)


@row("elementwise kernels")
def elementwise() -> None:
    combine = ElementwiseKernel("float a, float* x, float* y, float* z", "z[i] = a * x[i] + y[i]", "combine")
    x, y = (gpuarray.to_gpu(np.random.default_rng(n).random(1000, np.float32)) for n in (5, 6))
    z = gpuarray.empty_like(x)
    combine(5, x, y, z)
    assert np.allclose(z.get(), 5 * x.get() + y.get())


@row("reductions")
def reductions() -> None:
    dot = ReductionKernel(
        np.float32, neutral="0", reduce_expr="a + b", map_expr="x[i] * y[i]", arguments="float* x, float* y"
    )
    x, y = (np.random.default_rng(n).random(5000, np.float32) for n in (7, 8))
    assert np.allclose(dot(gpuarray.to_gpu(x), gpuarray.to_gpu(y)).get(), x @ y, rtol=1e-4)


@row("scans")
def scans() -> None:
    values = np.random.default_rng(9).integers(0, 10, 5000).astype(np.int32)
    there = gpuarray.to_gpu(values)
    InclusiveScanKernel(np.int32, "a + b")(there)
    assert np.array_equal(there.get(), np.cumsum(values))


@row("streams and events")
def streams() -> None:
    stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
    host = cuda.pagelocked_empty(1000, np.float32)
    host[:] = 1
    there = cuda.mem_alloc(host.nbytes)
    start.record(stream)
    cuda.memcpy_htod_async(there, host, stream)
    end.record(stream)
    end.synchronize()
    assert end.time_since(start) >= 0


main()
