// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/ptx_parser.cpp: libFuzzer harness: any bytes parse to a tree or to diagnostics, and
// the printed text of a tree parses to the same tree.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cpu/ptx/parser.hpp"
#include "cpu/ptx/printer.hpp"
#include "tests/fuzz/device_of.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cucpu::ptx;
  Diagnostics diagnostics;
  const std::string text{reinterpret_cast<const char*>(data), size};
  const std::uint32_t device = device_of(text);
  const Parsed parsed = parse(text, diagnostics, device);
  if ((parsed.module == nullptr) != diagnostics.failed()) std::abort();
  if (parsed.module == nullptr) {
    if (parsed.code != 218 && parsed.code != 222) std::abort();
    return 0;
  }
  const std::string printed = print(*parsed.module);
  Diagnostics again;
  const Parsed reparsed = parse(printed, again, device);
  if (reparsed.module == nullptr || print(*reparsed.module) != printed) std::abort();
  return 0;
}
