// Adds two vectors: the whole path from CUDA C++ text to a checked result, on a GPU or the CPU
// device.
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void add(const float* a, const float* b, float* c, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) c[i] = a[i] + b[i];  // the last block has threads to spare
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};  // for the current device
  const cucore::Kernel add = program.compile(cucore::CodeType::cubin).get_kernel("add");

  std::vector<float> a(100'000);
  std::vector<float> b(a.size(), 1.0F);
  std::vector<float> c(a.size());
  std::iota(a.begin(), a.end(), 0.0F);

  const std::size_t bytes = a.size() * sizeof(float);
  cucore::Buffer a_dev = device.allocate(bytes, stream);
  cucore::Buffer b_dev = device.allocate(bytes, stream);
  const cucore::Buffer c_dev = device.allocate(bytes, stream);
  a_dev.copy_from(std::span{a}, stream);
  b_dev.copy_from(std::span{b}, stream);
  const auto blocks = static_cast<unsigned>((a.size() + 255) / 256);
  cucore::launch(stream, {.grid = {blocks}, .block = {256}}, add, a_dev, b_dev, c_dev, a.size());
  c_dev.copy_to(std::span{c}, stream);
  stream.sync();  // everything above was only queued

  for (std::size_t i = 0; i < c.size(); ++i)
    if (c[i] != a[i] + b[i]) return 1;
  std::printf("%s: added %zu numbers\n", device.name().c_str(), c.size());
  return 0;
} catch (const std::exception& error) {  // a failed call, with its code and what to do about it
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
