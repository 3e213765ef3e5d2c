// Two processes work on one buffer: the memory is shared, no bytes are sent. The parent exports its
// pool as a file descriptor, which the child inherits, and the buffer as a few bytes, which it
// reads from its standard input.
#include <fcntl.h>

#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void twice(int* data) { data[threadIdx.x] *= 2; }
)";
constexpr unsigned kCount = 64;

static int child(int descriptor) {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::IPCBufferDescriptor shared;
  if (std::fread(&shared, sizeof shared, 1, stdin) != 1) return 1;
  const auto pool = cucore::MemoryPool::from_file_descriptor(descriptor, {.ipc_enabled = true});
  const cucore::Buffer buffer = cucore::import_buffer(pool, shared, stream);
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel twice = program.compile(cucore::CodeType::cubin).get_kernel("twice");
  cucore::launch(stream, {.grid = {1}, .block = {kCount}}, twice, buffer);
  stream.sync();
  return 0;
}

int main(int count, char** words) try {
  if (count > 1) return child(std::stoi(words[1]));
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  const auto pool = cucore::MemoryPool::create({.ipc_enabled = true});
  cucore::Buffer buffer = cucore::Buffer::allocate(pool, kCount * sizeof(int), stream);
  std::vector<int> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 0);
  buffer.copy_from(std::span{numbers}, stream);
  stream.sync();

  const int descriptor = pool->export_file_descriptor();
  fcntl(descriptor, F_SETFD, 0);  // the child keeps it
  const cucore::IPCBufferDescriptor shared = cucore::export_buffer(buffer);
  const std::string command = "'" + std::string{words[0]} + "' " + std::to_string(descriptor);
  FILE* other = popen(command.c_str(), "w");
  if (other == nullptr || std::fwrite(&shared, sizeof shared, 1, other) != 1) return 1;
  if (pclose(other) != 0) return 1;  // waits for its end

  std::vector<int> result(kCount);
  buffer.copy_to(std::span{result}, stream);
  stream.sync();
  for (unsigned i = 0; i < kCount; ++i)
    if (result[i] != 2 * numbers[i]) return 1;
  std::printf("%s: another process doubled %u numbers\n", device.name().c_str(), kCount);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
