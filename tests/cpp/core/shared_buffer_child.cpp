// SPDX-License-Identifier: Apache-2.0
// shared_buffer_child.cpp: the other process of shared_buffer_test.cpp. Opens the buffer whose
// bytes it is given, adds one to each of its bytes, says so, and keeps it until its input ends.
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/shared_buffer.hpp"

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::SharedBuffer shared;
  if (std::fread(&shared, sizeof shared, 1, stdin) != 1) return 2;
  cucore::Buffer buffer = cucore::open_shared_buffer(shared, stream);
  cucore::Buffer second = cucore::open_shared_buffer(shared, stream);  // the same mapping
  if (second.handle() != buffer.handle()) return 3;
  second.close();
  std::vector<unsigned char> bytes(buffer.size());
  buffer.copy_to(std::span{bytes}, stream);
  stream.sync();
  for (unsigned char& byte : bytes) ++byte;
  buffer.copy_from(std::span{bytes}, stream);
  stream.sync();
  std::puts("open");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  buffer.close();
  stream.sync();
  return 0;
} catch (const std::exception& error) {
  std::puts(error.what());
  return 1;
}
