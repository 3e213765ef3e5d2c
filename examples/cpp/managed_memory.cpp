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
  CUdeviceptr address = 0;  // what the library has no class for, the driver's own functions do
  CUCORE_CALL(cuMemAllocManaged(&address, 2 * bytes, CU_MEM_ATTACH_GLOBAL));
  float* x = reinterpret_cast<float*>(address);
  float* y = x + n;
  // The host writes in place: nothing is copied by hand.
  for (int i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i));

  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {device.device_id()}};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  const CUstream queue = stream.handle();
  CUCORE_CALL(cuMemPrefetchAsync(address, 2 * bytes, here, 0, queue));  // before it is needed
  cucore::launch(stream, {.grid = {(n + 255) / 256}, .block = {256}}, smooth, x, y, n);
  CUCORE_CALL(cuMemPrefetchAsync(address, 2 * bytes, host, 0, queue));  // and back
  stream.sync();

  for (int i = 0; i < n; ++i) {
    const float mean = (x[std::max(i - 1, 0)] + x[i] + x[std::min(i + 1, n - 1)]) / 3;
    if (std::abs(y[i] - mean) > 1e-6F) return 1;
  }
  std::printf("%s: smoothed %d numbers in managed memory\n", device.name().c_str(), n);
  CUCORE_CALL(cuMemFree(address));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
