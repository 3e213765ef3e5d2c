"""Thread block clusters: blocks that run together and read each other's shared memory (compute capability 9.0)."""

from __future__ import annotations

import numpy as np
from cuda import pathfinder
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each block counts its part of the data; block 0 of a cluster collects from the others without global memory.
extern "C" __global__ void histogram(const unsigned char* data, int per_block, int* bins) {
  __shared__ int local[16];
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x)
    atomicAdd(&local[data[blockIdx.x * per_block + i] % 16], 1);
  cluster.sync();  // every block of the cluster has counted
  if (cluster.block_rank() == 0 && threadIdx.x < 16) {
    int sum = 0;
    for (unsigned block = 0; block < cluster.num_blocks(); ++block)
      sum += cluster.map_shared_rank(local, block)[threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
  }
  cluster.sync();  // shared memory stays until block 0 has read it
}
"""


def main() -> None:
    device = Device()
    device.set_current()
    if device.compute_capability < (9, 0):
        print(f"{device.name} has no clusters: they came with compute capability 9.0")
        return
    stream = device.create_stream()
    found = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]  # <cooperative_groups.h>
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", include_path=[path for path in found if path])
    kernel = Program(SOURCE, "c++", options).compile("cubin").get_kernel("histogram")

    clusters, blocks, per_block = 3, 4, 1000
    data = np.random.default_rng(4).integers(0, 256, clusters * blocks * per_block, dtype=np.uint8)
    bins = np.empty(16, np.int32)
    with device.allocate(data.nbytes, stream=stream) as source, device.allocate(bins.nbytes, stream=stream) as result:
        source.copy_from(data, stream=stream)
        result.fill(0, stream=stream)
        config = LaunchConfig(grid=clusters, cluster=blocks, block=128)  # the grid counts clusters
        launch(stream, config, kernel, source, np.int32(per_block), result)
        result.copy_to(bins, stream=stream)
        stream.sync()
    assert np.array_equal(bins, np.bincount(data % 16, minlength=16))
    print(f"{device.name}: {clusters} clusters of {blocks} blocks counted {len(data):,} bytes: {bins.tolist()}")


if __name__ == "__main__":
    main()
