// Compiles a C++ template for several types and launches each: name expressions, and kernels whose
// parameter types the compiler checks.
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
template <typename T>
__global__ void axpy(T a, const T* x, T* y, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) y[i] += a * x[i];
}
)";

template <class T>
static bool run(const cucore::Device& device, const cucore::ObjectCode& code,
                const std::string& name) {
  // The types are compared with the kernel's here, the arguments by the compiler below.
  const cucore::TypedKernel<T, const T*, T*, std::size_t> axpy{code.get_kernel(name)};
  const cucore::Stream stream = device.create_stream();
  std::vector<T> x(1000);
  std::iota(x.begin(), x.end(), T{0});
  std::vector<T> y(x.size(), T{1});
  cucore::Buffer x_buffer = device.allocate(x.size() * sizeof(T), stream);
  cucore::Buffer y_buffer = device.allocate(y.size() * sizeof(T), stream);
  x_buffer.copy_from(std::span{x}, stream);
  y_buffer.copy_from(std::span{y}, stream);
  cucore::launch(stream, {.grid = {4}, .block = {256}}, axpy, 3, x_buffer, y_buffer, x.size());
  y_buffer.copy_to(std::span{y}, stream);
  stream.sync();
  std::printf("%s: symbol %s, %s\n", name.c_str(), code.symbol_mapping().at(name).c_str(),
              y.back() == T{2998} ? "right" : "wrong");
  return y.back() == T{2998};
}

int main() try {
  const cucore::Device device;
  device.set_current();
  cucore::Program program{kSource, cucore::SourceType::cxx, {.std = "c++17"}};
  const std::vector<std::string> names{"axpy<float>", "axpy<double>", "axpy<int>"};
  const cucore::ObjectCode code = program.compile(cucore::CodeType::cubin, names);
  const bool right = run<float>(device, code, names[0]) && run<double>(device, code, names[1]) &&
                     run<int>(device, code, names[2]);
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
