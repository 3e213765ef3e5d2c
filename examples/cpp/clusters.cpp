// Thread block clusters: blocks that run together and read each other's shared memory (compute
// capability 9.0).
#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

// Each block counts its part of the data; block 0 of a cluster collects from the others without
// global memory.
constexpr const char* kSource = R"(
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

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
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  if (device.compute_capability().major < 9) {
    std::printf("%s has no clusters\n", device.name().c_str());
    return 0;
  }
  const cucore::Stream stream = device.create_stream();
  cucore::ProgramOptions options;
  options.std = "c++17";
  options.use_bundled_headers = true;  // <cooperative_groups.h>
  cucore::Program program{kSource, cucore::SourceType::cxx, options};
  const cucore::Kernel histogram = program.compile(cucore::CodeType::cubin).get_kernel("histogram");

  constexpr unsigned clusters = 3;
  constexpr unsigned blocks = 4;
  constexpr int per_block = 1000;
  std::vector<unsigned char> data(clusters * blocks * per_block);
  std::array<int, 16> expected{};
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<unsigned char>(i * i / 7);
    ++expected[data[i] % 16];
  }
  cucore::Buffer source = device.allocate(data.size(), stream);
  cucore::Buffer result = device.allocate(sizeof expected, stream);
  source.copy_from(std::span{data}, stream);
  result.fill(0, stream);
  const cucore::LaunchConfig config{.grid = {clusters},
                                    .block = {128},
                                    .cluster = cucore::Dim3{blocks}};  // the grid counts clusters
  cucore::launch(stream, config, histogram, source, per_block, result);
  std::array<int, 16> bins{};
  result.copy_to(std::span{bins}, stream);
  stream.sync();
  std::printf("%s: %u clusters of %u blocks counted %zu bytes\n", device.name().c_str(), clusters,
              blocks, data.size());
  return bins == expected ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
