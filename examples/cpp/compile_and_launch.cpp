// Compiles a C++ template at run time and launches it, on a GPU or, with none, on the CPU device.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/buffer.hpp"
#include "cucore/device.hpp"
#include "cucore/error.hpp"
#include "cucore/launch.hpp"
#include "cucore/program.hpp"
#include "cucore/stream.hpp"

constexpr const char* kSource = R"(
template <typename T>
__global__ void scale(T* data, T factor, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) data[i] *= factor;
}
)";

int main() try {
  cucore::Device device{0};
  device.set_current();
  const cucore::Stream stream = device.create_stream();

  cucore::ProgramOptions options;
  options.std = "c++17";
  cucore::Program program{kSource, cucore::SourceType::cxx, options};  // for the current device
  const std::vector<std::string> names{"scale<float>"};
  const cucore::Kernel kernel =
      program.compile(cucore::CodeType::cubin, names).get_kernel("scale<float>");

  std::vector<float> data(1000, 2.0F);
  cucore::Buffer buffer = device.allocate(data.size() * sizeof(float), stream);
  buffer.copy_from(std::span{data}, stream);
  cucore::launch(stream, {.grid = {4}, .block = {256}}, kernel, buffer, 21.0F, data.size());
  buffer.copy_to(std::span{data}, stream);
  stream.sync();
  std::printf("%s: %g\n", device.name().c_str(), data.back());
  return data.back() == 42.0F ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
