"""Sum an array: warp shuffles inside a warp, shared memory between warps, one atomic per block."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
__device__ float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
  return value;  // right in lane 0
}

extern "C" __global__ void sum(const float* data, size_t n, float* total) {
  __shared__ float of_warp[32];
  float value = 0;
  for (size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    value += data[i];  // each thread strides over the whole array

  value = sum_of_warp(value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {  // the first warp adds up what the warps found
    value = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.0f;
    value = sum_of_warp(value);
    if (threadIdx.x == 0) atomicAdd(total, value);
  }
}
"""


def main(n: int = 1 << 18) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("sum")

    data = np.random.default_rng(2).random(n, dtype=np.float32)
    total = np.empty(1, np.float32)
    # As many blocks as fit at once; more would only queue up.
    per_multiprocessor = kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0)
    blocks = per_multiprocessor * device.properties.multiprocessor_count
    with device.allocate(data.nbytes, stream=stream) as source, device.allocate(4, stream=stream) as result:
        source.copy_from(data, stream=stream)
        result.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=blocks, block=256), kernel, source, np.uint64(n), result)
        result.copy_to(total, stream=stream)
        stream.sync()

    exact = data.sum(dtype=np.float64)
    assert abs(total[0] - exact) < 1e-4 * exact
    print(f"{device.name}: {blocks} blocks found {total[0]:.2f}, NumPy {exact:.2f}")


if __name__ == "__main__":
    main()
