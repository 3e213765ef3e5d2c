// Managed memory: one address for host and device, and hints about where it should be.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void smooth(const float* in, float* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) out[i] = (in[max(i - 1, 0)] + in[i] + in[min(i + 1, n - 1)]) / 3;
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel smooth = program.compile(cucore::CodeType::cubin).get_kernel("smooth");

  constexpr int n = 10'000;
  constexpr std::size_t bytes = n * sizeof(float);
  const auto resource =
      cucore::MemoryPool::create({.type = CU_MEM_ALLOCATION_TYPE_MANAGED,
                                  .location = cucore::Location::device(device.device_id()).raw()});
  const cucore::Buffer both = cucore::Buffer::allocate(resource, 2 * bytes, stream);
  stream.sync();  // from here on the host may use it
  float* x = reinterpret_cast<float*>(both.handle());
  float* y = x + n;
  // The host writes in place: nothing is copied by hand.
  for (int i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i));

  const cucore::ManagedRef memory{both};
  memory.prefetch(cucore::Location::device(device.device_id()), stream);  // before it is needed
  cucore::launch(stream, {.grid = {(n + 255) / 256}, .block = {256}}, smooth, x, y, n);
  memory.prefetch(cucore::Location::host(), stream);  // and back
  stream.sync();

  for (int i = 0; i < n; ++i) {
    const float mean = (x[std::max(i - 1, 0)] + x[i] + x[std::min(i + 1, n - 1)]) / 3;
    if (std::abs(y[i] - mean) > 1e-6F) return 1;
  }
  std::printf("%s: smoothed %d numbers in managed memory\n", device.name().c_str(), n);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
