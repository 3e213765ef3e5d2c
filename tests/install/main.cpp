// SPDX-License-Identifier: Apache-2.0
// main.cpp: a program that uses cucore: fills a buffer on a device, copies it back and checks it.
// Built with warnings as errors.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

namespace {

// Designated initializers: omitted options must not cause warnings.
const cucore::LaunchConfig kConfig{.grid = {.x = 2}, .block = {.x = 64}};
const cucore::ProgramOptions kProgram{.name = "consumer", .arch = "sm_90", .ftz = true};
const cucore::LinkerOptions kLinker{.name = "consumer", .lineinfo = true};
const cucore::PoolOptions kPool{.max_size = 1 << 20};
const cucore::StreamOptions kStream{.nonblocking = true};
const cucore::EventOptions kEvent{.timing_enabled = true};
const cucore::GraphCompleteOptions kGraph{.auto_free_on_launch = true};
const cucore::MemsetParams kMemset{.dst = 0, .value = 1};
const cucore::CopyExtent kExtent{.width = 16};

bool options_are_kept() {
  return kConfig.grid.x * kConfig.block.x == 128 && !kConfig.cluster && kProgram.ftz == true &&
         !kProgram.debug && kLinker.lineinfo == true && !kLinker.time &&
         kPool.max_size == 1 << 20 && kStream.nonblocking && !kStream.priority &&
         kEvent.timing_enabled && !kGraph.upload && kMemset.height == 1 && kExtent.bytes() == 16;
}

}  // namespace

int main() try {
  if (!options_are_kept()) return 2;
  const cucore::Device device{0};
  device.set_current();
  const cucore::Stream stream = device.create_stream(kStream);
  cucore::Buffer buffer = device.allocate(1024, stream);
  buffer.fill(42, stream);
  std::vector<unsigned char> host(1024);
  buffer.copy_to(std::span{host}, stream);
  stream.sync();
  for (const unsigned char byte : host) {
    if (byte != 42) return 1;
  }
  std::printf("%s: ok\n", device.name().c_str());
} catch (const cucore::DriverNotFoundError& error) {
  std::printf("no device, but built and linked: %s\n", error.what());
}
