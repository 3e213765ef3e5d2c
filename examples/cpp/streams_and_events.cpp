// Two streams take turns on the chunks of a large job; events order and time it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void work(float* x, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float value = x[i];
  for (int step = 0; step < 200; ++step) value = value * 0.5f + 1.0f;  // converges to 2
  x[i] = value;
}
)";

int main() try {
  constexpr int kChunk = 1 << 14;
  constexpr std::size_t kChunks = 8;
  const cucore::Device device;
  device.set_current();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel work = program.compile(cucore::CodeType::cubin).get_kernel("work");

  // Only page-locked host memory is copied while the host continues.
  const auto pinned = std::make_shared<cucore::LegacyPinnedMemory>();
  const std::array streams{device.create_stream(), device.create_stream()};
  const cucore::Buffer host =
      cucore::Buffer::allocate(pinned, kChunks * kChunk * sizeof(float), streams[0]);
  const std::span data{reinterpret_cast<float*>(host.handle()), kChunks * kChunk};
  std::fill(data.begin(), data.end(), 7.0F);
  std::array buffers{device.allocate(kChunk * sizeof(float), streams[0]),
                     device.allocate(kChunk * sizeof(float), streams[1])};

  const cucore::Event start = streams[0].record({.timing_enabled = true});
  streams[1].wait(start);  // neither begins before the clock does
  for (std::size_t i = 0; i < kChunks; ++i) {
    const cucore::Stream& stream = streams[i % 2];
    cucore::Buffer& buffer = buffers[i % 2];
    const auto chunk = data.subspan(i * kChunk, kChunk);
    buffer.copy_from(chunk, stream);
    cucore::launch(stream, {.grid = {kChunk / 256}, .block = {256}}, work, buffer, kChunk);
    buffer.copy_to(chunk, stream);  // while the other stream computes
  }
  streams[0].wait(streams[1]);  // join them again
  const cucore::Event end = streams[0].record({.timing_enabled = true});
  end.sync();

  std::printf("%s: %zu chunks on two streams in %.3f ms\n", device.name().c_str(), kChunks,
              static_cast<double>(cucore::Event::elapsed_ms(start, end)));
  return std::all_of(data.begin(), data.end(), [](float x) { return x > 1.999F && x < 2.001F; })
             ? 0
             : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
