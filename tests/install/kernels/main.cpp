// SPDX-License-Identifier: Apache-2.0
// main.cpp: runs the kernels of shift.cu, however they came into the program.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"
#include "shift.hpp"

namespace {

template <class T>
bool shifts(const cucore::Device& device, const char* name) {
  const cucore::Stream stream = device.create_stream();
  std::vector<T> values(1000, T(4));
  cucore::Buffer buffer = device.allocate(values.size() * sizeof(T), stream);
  buffer.copy_from(std::span{values}, stream);
  const cucore::Kernel kernel = kernels::shift().get_kernel(name);
  cucore::launch(stream, {.grid = {8}, .block = {128}}, kernel, buffer, 1000u);
  buffer.copy_to(std::span{values}, stream);
  stream.sync();
  for (const T value : values)
    if (value != T(7)) return false;
  return true;
}

}  // namespace

int main() {
  const cucore::Device device{0};
  device.set_current();
  if (!shifts<float>(device, "shift<float>") || !shifts<int>(device, "shift<int>")) return 1;
  // What was compiled once is not compiled again.
  if (!(kernels::shift().object_code() == kernels::shift().object_code())) return 2;
  std::printf("%s, %s: ok\n", kernels::shift().name().c_str(),
              kernels::shift().is_source() ? "source" : "compiled");
}
