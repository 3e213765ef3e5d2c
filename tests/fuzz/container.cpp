// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/container.cpp: libFuzzer harness: reading any bytes is safe, and PTX that is added to
// a container is returned unchanged.
#include "cucore/container.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const std::size_t before = cucore::ptx_of_container(bytes).size();
  try {
    const std::string file = cucore::make_container(bytes, "ptx");
    const auto modules = cucore::ptx_of_container(file);
    if (modules.empty() || modules.back() != "ptx") std::abort();
  } catch (const std::invalid_argument&) {
    if (before != 0) std::abort();  // PTX can be added to every readable container
  }
  return 0;
}
