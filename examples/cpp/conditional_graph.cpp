// A loop that runs on the device: a graph with a while node, whose kernel decides when it is done.
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

// Newton's iteration for square roots, one block: all threads take a step, one says whether to go
// on.
constexpr const char* kSource = R"(
typedef unsigned long long Condition;
extern "C" __device__ void cudaGraphSetConditional(Condition condition, unsigned int value);

extern "C" __global__ void newton(Condition again, const float* a, float* x) {
  const float before = x[threadIdx.x];
  const float after = 0.5f * (before + a[threadIdx.x] / before);
  x[threadIdx.x] = after;
  const int moving = __syncthreads_or(fabsf(after - before) > 1e-5f * after);
  if (threadIdx.x == 0) cudaGraphSetConditional(again, moving);
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel newton = program.compile(cucore::CodeType::cubin).get_kernel("newton");

  std::vector<float> numbers(128);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  cucore::Buffer a = device.allocate(numbers.size() * sizeof(float), stream);
  cucore::Buffer x = device.allocate(numbers.size() * sizeof(float), stream);
  a.copy_from(std::span{numbers}, stream);
  x.copy_from(std::span{numbers}, stream);  // a first guess

  cucore::GraphBuilder builder{device.create_stream()};
  builder.begin_building();
  const cucore::GraphCondition again =
      builder.create_condition(1);  // a first turn, at every launch
  cucore::GraphBuilder body = builder.while_loop(again);
  body.begin_building();
  cucore::launch(body, {.grid = {1}, .block = {128}}, newton, again, a, x);
  body.end_building();

  builder.end_building().complete().launch(stream);
  std::vector<float> roots(numbers.size());
  x.copy_to(std::span{roots}, stream);
  stream.sync();
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (std::abs(roots[i] * roots[i] - numbers[i]) > 1e-4F * numbers[i]) return 1;
  std::printf("%s: %zu square roots by one launch\n", device.name().c_str(), roots.size());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
