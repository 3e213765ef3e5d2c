// Captures a chain of kernels once and replays it many times with one call each.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void step(float* x, float a, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) x[i] = x[i] * a + 1.0f;
}
)";

int main() try {
  constexpr int kCount = 4096;
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel step = program.compile(cucore::CodeType::cubin).get_kernel("step");
  cucore::Buffer data = device.allocate(kCount * sizeof(float), stream);
  data.fill(0, stream);

  const cucore::GraphDefinition definition = cucore::capture(stream, [&] {
    for (int i = 0; i < 20; ++i)
      cucore::launch(stream, {.grid = {16}, .block = {256}}, step, data, 0.5F, kCount);
  });
  const cucore::Graph graph = definition.instantiate();
  for (int i = 0; i < 50; ++i) graph.launch(stream);

  std::vector<float> result(kCount);
  data.copy_to(std::span{result}, stream);
  stream.sync();
  std::printf("%s: 50 launches of %zu kernels end in %g\n", device.name().c_str(),
              definition.nodes().size(), static_cast<double>(result.front()));
  return result.front() == 2.0F && result.back() == 2.0F ? 0 : 1;  // the fixed point of x/2 + 1
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
