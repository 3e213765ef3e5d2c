// Several devices: a copy between them, and a kernel of one that reads the other's memory.
// CUCORE_CPU_DEVICES=2 shows it on a machine without GPUs.
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void add_from(const int* there, int* here) {
  here[threadIdx.x] += there[threadIdx.x];
}
)";

int main() try {
  const std::vector<cucore::Device> devices = cucore::Device::all();
  if (devices.size() < 2) {
    std::printf("one device only: set CUCORE_CPU_DEVICES=2 to see two CPU devices\n");
    return 0;
  }
  const cucore::Device here = devices[0];
  const cucore::Device there = devices[1];
  std::vector<int> numbers(256);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::size_t bytes = numbers.size() * sizeof(int);

  // A pool of our own on the other device, which this one may use.
  const cucore::Stream far_stream = there.create_stream();
  const auto pool =
      cucore::MemoryPool::create({.location = {CU_MEM_LOCATION_TYPE_DEVICE, {there.device_id()}}});
  pool->set_access(here.device_id(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  cucore::Buffer far = cucore::Buffer::allocate(pool, bytes, far_stream);
  far.copy_from(std::span{numbers}, far_stream);
  const cucore::Event ready = far_stream.record();

  here.set_current();
  const cucore::Stream stream = here.create_stream();
  stream.wait(ready);  // events work across devices
  cucore::Buffer near = here.allocate(bytes, stream);
  near.copy_from(far, stream);  // a peer copy
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel kernel = program.compile(cucore::CodeType::cubin).get_kernel("add_from");
  cucore::launch(stream, {.grid = {1}, .block = {256}}, kernel, far, near);  // and a peer access
  near.copy_to(std::span{numbers}, stream);
  stream.sync();
  far.close(stream);

  for (int i = 0; i < 256; ++i)
    if (numbers[static_cast<std::size_t>(i)] != 2 * i) return 1;
  std::printf("%s read %zu bytes of device %d\n", here.name().c_str(), bytes, there.device_id());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
