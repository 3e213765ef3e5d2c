// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/transpose.hpp: transposes matrices of 16-bit elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cucpu {

/// Transposes eight rows of eight halves; widths: elements from one row to the next.
inline void transpose_halves(const std::uint16_t* from, unsigned from_width, std::uint16_t* to,
                             unsigned to_width) {
  using Halves [[gnu::vector_size(16)]] = std::uint16_t;
  Halves row[8], next[8];
  for (unsigned i = 0; i < 8; ++i) std::memcpy(&row[i], from + i * from_width, sizeof row[i]);
  // Each step interleaves rows i and i + 4.
  for (unsigned step = 0; step < 3; ++step) {
    for (unsigned i = 0; i < 4; ++i) {
      const Halves x = row[i], y = row[i + 4];
      next[2 * i] = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::copy(next, next + 8, row);
  }
  for (unsigned i = 0; i < 8; ++i) std::memcpy(to + i * to_width, &row[i], sizeof row[i]);
}

}  // namespace cucpu
