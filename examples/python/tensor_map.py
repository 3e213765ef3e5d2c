"""Tensor maps: the tensor memory accelerator brings a tile of a matrix into shared memory (compute capability 9.0).

A descriptor made on the host describes the layout of the matrix in memory; in the kernel, one thread requests a tile.
"""

from __future__ import annotations

import numpy as np
from cuda import pathfinder
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, TensorMapDescriptorOptions, launch
from cuda.core.utils import StridedMemoryView

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

struct alignas(64) TensorMap { char opaque[128]; };  // CUtensorMap of <cuda.h>, a header NVRTC cannot read

constexpr int kTile = 16;

// Transposes a matrix tile by tile. Tiles that stick out of the matrix are filled with zeros.
extern "C" __global__ void transpose(const __grid_constant__ TensorMap map, float* out, int rows, int columns) {
  __shared__ alignas(128) float tile[kTile][kTile];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier arrived;
  if (threadIdx.x == 0) {
    init(&arrived, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);  // the accelerator sees it too
  }
  __syncthreads();

  const int x = blockIdx.x * kTile, y = blockIdx.y * kTile;
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    const int corner[2] = {x, y};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &tile, &map, corner,
                              cuda::device::barrier_native_handle(arrived));
    token = cuda::device::barrier_arrive_tx(arrived, 1, sizeof(tile));
  } else {
    token = arrived.arrive();
  }
  arrived.wait(cuda::std::move(token));  // the tile is here

  for (int i = threadIdx.x; i < kTile * kTile; i += blockDim.x) {
    const int row = i % kTile, column = i / kTile;
    if (x + column < columns && y + row < rows) out[(x + column) * rows + y + row] = tile[row][column];
  }
}
"""


def main() -> None:
    device = Device()
    device.set_current()
    if device.compute_capability < (9, 0):
        print(f"{device.name} has no tensor memory accelerator: it came with compute capability 9.0")
        return
    stream = device.create_stream()
    found = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]  # <cuda/barrier>
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", include_path=[path for path in found if path])
    kernel = Program(SOURCE, "c++", options).compile("cubin").get_kernel("transpose")

    matrix = np.arange(40 * 52, dtype=np.float32).reshape(40, 52)
    rows, columns = matrix.shape
    result = np.empty((columns, rows), np.float32)
    source = device.allocate(matrix.nbytes, stream=stream)
    target = device.allocate(result.nbytes, stream=stream)
    source.copy_from(matrix, stream=stream)

    view = StridedMemoryView.from_buffer(source, matrix.shape, dtype=matrix.dtype)
    tensor_map = view.as_tensor_map(TensorMapDescriptorOptions(box_dim=(16, 16)))
    config = LaunchConfig(grid=((columns + 15) // 16, (rows + 15) // 16), block=64)
    launch(stream, config, kernel, tensor_map, target, np.int32(rows), np.int32(columns))
    target.copy_to(result, stream=stream)
    stream.sync()
    assert np.array_equal(result, matrix.T)
    print(f"{device.name}: transposed {rows} x {columns} in tiles that the accelerator fetched")
    for buffer in (source, target):
        buffer.close(stream)


if __name__ == "__main__":
    main()
