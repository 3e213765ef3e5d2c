// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/format_text.hpp: printf formatting into strings, for fault reports.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace cucpu {

/// At most 255 characters.
std::string format_text(const char* format, auto... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// A block or thread index: "(x, y, z)".
inline std::string format_index(const std::uint32_t (&v)[3]) {
  return format_text("(%u, %u, %u)", v[0], v[1], v[2]);
}

}  // namespace cucpu
