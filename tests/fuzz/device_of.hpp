// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/device_of.hpp: the device for which a harness loads a text: the one that the text
// names, so that instructions of every compute capability are compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

inline std::uint32_t device_of(std::string_view text) {
  constexpr std::uint32_t kDevices[] = {75, 80, 86, 89, 90, 100, 103, 110, 120, 121};
  std::uint32_t number = 0;
  if (const std::size_t at = text.find("sm_"); at != std::string_view::npos) {
    for (const char c : text.substr(at + 3, 3)) {
      if (c < '0' || c > '9') break;
      number = number * 10 + static_cast<std::uint32_t>(c - '0');
    }
  }
  for (const std::uint32_t device : kDevices)
    if (device == number) return device;
  return 90;
}
