// Two processes work on one buffer: memory and an event are shared, no bytes are sent. The parent
// fills a buffer and records an event; the child, which reads from its standard input what both are
// opened by, waits for the event and doubles the numbers.
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void twice(int* data) { data[threadIdx.x] *= 2; }
)";
constexpr unsigned kCount = 64;

/// What the child is sent: plain bytes.
struct Message {
  cucore::SharedBuffer buffer;
  CUipcEventHandle ready;
};

static int child() {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  Message message;
  if (std::fread(&message, sizeof message, 1, stdin) != 1) return 1;
  const cucore::Buffer buffer = cucore::open_shared_buffer(message.buffer, stream);
  stream.wait(cucore::Event::from_ipc_handle(
      device.primary_context(), message.ready));  // the parent's stream, seen from here
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel twice = program.compile(cucore::CodeType::cubin).get_kernel("twice");
  cucore::launch(stream, {.grid = {1}, .block = {kCount}}, twice, buffer);
  stream.sync();
  return 0;
}

int main(int count, char** words) try {
  if (count > 1) return child();
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  const auto pool = cucore::MemoryPool::create({.ipc_enabled = true});
  const auto buffer = std::make_shared<cucore::Buffer>(
      cucore::Buffer::allocate(pool, kCount * sizeof(int), stream));
  std::vector<int> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 0);
  buffer->copy_from(std::span{numbers}, stream);
  const cucore::Event ready = stream.record({.ipc_enabled = true});

  const Message message{cucore::share_buffer(buffer), ready.ipc_handle()};
  const std::string command = "'" + std::string{words[0]} + "' child";
  FILE* other = popen(command.c_str(), "w");
  if (other == nullptr || std::fwrite(&message, sizeof message, 1, other) != 1) return 1;
  if (pclose(other) != 0) return 1;  // waits for its end

  std::vector<int> result(kCount);
  buffer->copy_to(std::span{result}, stream);
  stream.sync();
  for (unsigned i = 0; i < kCount; ++i)
    if (result[i] != 2 * numbers[i]) return 1;
  std::printf("%s: another process doubled %u numbers\n", device.name().c_str(), kCount);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
