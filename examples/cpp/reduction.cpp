// Sums an array: warp shuffles inside a warp, shared memory between warps, one atomic per block.
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
__device__ float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
  return value;  // right in lane 0
}

extern "C" __global__ void sum(const float* data, size_t n, float* total) {
  __shared__ float of_warp[32];
  float value = 0;
  for (size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x; i < n;
       i += size_t{gridDim.x} * blockDim.x)
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
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel sum = program.compile(cucore::CodeType::cubin).get_kernel("sum");

  // As many blocks as fit at once; more would only queue up.
  const int per_multiprocessor = sum.occupancy().max_active_blocks_per_multiprocessor(256, 0);
  const int multiprocessors = device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const auto blocks = static_cast<unsigned>(per_multiprocessor * multiprocessors);

  std::vector<float> data(1 << 18);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 1.0F / static_cast<float>(1 + i % 7);
  cucore::Buffer source = device.allocate(data.size() * sizeof(float), stream);
  cucore::Buffer result = device.allocate(sizeof(float), stream);
  source.copy_from(std::span{data}, stream);
  result.fill(0, stream);
  cucore::launch(stream, {.grid = {blocks}, .block = {256}}, sum, source, data.size(), result);
  float total = 0;
  result.copy_to(std::span{&total, 1}, stream);
  stream.sync();

  const double exact = std::accumulate(data.begin(), data.end(), 0.0);
  std::printf("%s: %u blocks found %.2f, exact %.2f\n", device.name().c_str(), blocks,
              static_cast<double>(total), exact);
  return std::abs(total - exact) < 1e-4 * exact ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
