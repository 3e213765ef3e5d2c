// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/image.cpp: libFuzzer harness: any image for cuModuleLoadData yields PTX texts or a
// loader error; a container made from these texts returns the same texts.
#include "cpu/image/image.hpp"

#include <cstdint>
#include <cstdlib>

#include "cpu/base/error.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/image/container.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::uint32_t kWrapper = 0x466243b1;  // contains an address, which must be valid
  if (size >= 4 && std::equal(data, data + 4, reinterpret_cast<const std::uint8_t*>(&kWrapper)))
    return 0;
  try {
    const auto texts = cucpu::driver::ptx_of_image(data, size, 90);
    if (texts.empty()) std::abort();
    const std::string container = cucpu::driver::make_container(texts);
    if (cucpu::driver::ptx_of_image(container.data(), container.size(), 90) != texts) std::abort();
    if (cucpu::driver::ptx_of_image(container.data(), 0, 90) != texts) std::abort();
  } catch (const cucpu::LoadError& error) {
    if (error.code != 200 && error.code != 209) std::abort();
  } catch (const std::bad_alloc&) {
  }
  return 0;
}
