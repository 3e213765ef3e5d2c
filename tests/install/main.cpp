// main.cpp: what a stranger writes: fill a buffer on a device, copy it back, look.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/error.hpp"

int main() try {
  const cucore::Device device{0};
  device.set_current();
  const cucore::Stream stream = device.create_stream();
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
