"""Multiply matrices twice: tiles in shared memory, and tensor cores through wmma (half precision in, single out)."""

from __future__ import annotations

import numpy as np
from cuda import pathfinder
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
#include <mma.h>
using namespace nvcuda;

constexpr int kTile = 16;

extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    b_tile[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();  // the tiles are whole
    for (int i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();  // all reads are done
  }
  c[row * n + column] = sum;
}

// One warp makes one 16 x 16 tile of c.
extern "C" __global__ void tensor_cores(const half* a, const half* b, float* c, int n) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_part;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_part;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(a_part, a + row * n + k, n);
    wmma::load_matrix_sync(b_part, b + k * n + column, n);
    wmma::mma_sync(sum, a_part, b_part, sum);
  }
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}
"""


def main(n: int = 128) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    headers = pathfinder.find_nvidia_header_directory("cudart")  # where <mma.h> is
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", include_path=headers)
    code = Program(SOURCE, "c++", options).compile("cubin")
    random = np.random.default_rng(3)

    kinds = (("tiled", np.float32, (16, 16), 1e-5), ("tensor_cores", np.float16, 32, 1e-3))
    for name, dtype, block, tolerance in kinds:
        a, b = random.random((2, n, n), dtype=np.float32).astype(dtype)
        c = np.empty((n, n), np.float32)
        with (
            device.allocate(a.nbytes, stream=stream) as a_dev,
            device.allocate(b.nbytes, stream=stream) as b_dev,
            device.allocate(c.nbytes, stream=stream) as c_dev,
        ):
            a_dev.copy_from(a, stream=stream)
            b_dev.copy_from(b, stream=stream)
            config = LaunchConfig(grid=(n // 16, n // 16), block=block)
            launch(stream, config, code.get_kernel(name), a_dev, b_dev, c_dev, np.int32(n))
            c_dev.copy_to(c, stream=stream)
            stream.sync()
        expected = a.astype(np.float64) @ b.astype(np.float64)
        error = np.abs(c / expected - 1).max()
        assert error < tolerance, error
        print(f"{name}: {n} x {n}, largest relative error {error:.1e}")


if __name__ == "__main__":
    main()
