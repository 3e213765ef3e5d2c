// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_descriptor.hpp: matrices in shared memory, as descriptors of wgmma and
// tcgen05 describe them.
#pragma once

#include <cstdint>
#include <optional>

namespace cucpu {

struct MatrixDescriptor {
  std::uint32_t start, leading, stride;  ///< bytes
  std::uint32_t base_offset;             ///< where the swizzle pattern starts, in rows of 128 bytes
  std::uint32_t chunks;    ///< 16-byte chunks in a row of the swizzle pattern; 1: none
  std::uint32_t atom = 1;  ///< chunks that the pattern moves together
  /// `leading` is where the rows continue after the end of their 128 bytes.
  bool absolute = false;

  /// The offset in shared memory of 16-byte chunk `chunk` (along the fast index) of line `line`
  /// (the slow one).
  [[nodiscard]] std::uint32_t at(bool transposed, std::uint32_t line, std::uint32_t chunk) const {
    std::uint32_t address = start;
    if (!transposed && absolute && (start >> 4 & 7) + chunk >= 8) {
      address = leading + line / 8 * stride + line % 8 * 128 + ((start >> 4 & 7) + chunk - 8) * 16;
    } else if (!transposed) {  // lines are rows of m or n, chunks run along k
      address += line / 8 * stride + line % 8 * 16 * chunks;
      address += chunks == 1 ? chunk * leading : chunk * 16;
    } else if (chunks == 1) {  // lines run along k, chunks along m or n
      address += line / 8 * leading + line % 8 * 16 + chunk * stride;
    } else {
      const std::uint32_t lines = 8 / atom;
      address += line / lines * stride + line % lines * 16 * chunks + chunk / chunks * leading +
                 chunk % chunks * 16;
    }
    const std::uint32_t row = (address >> 7) - base_offset;
    return address ^ (row & (chunks / atom - 1)) * atom << 4;
  }
};

/// The fields that all descriptors share.
inline MatrixDescriptor matrix_descriptor(std::uint64_t bits, std::uint32_t chunks) {
  const auto field = [bits](unsigned at) {
    return static_cast<std::uint32_t>(bits >> at & 0x3fff) << 4;
  };
  return {field(0), field(16), field(32), static_cast<std::uint32_t>(bits >> 49 & 7), chunks};
}

inline MatrixDescriptor wgmma_descriptor(std::uint64_t bits) {
  constexpr std::uint32_t kChunks[] = {1, 8, 4, 2};
  return matrix_descriptor(bits, kChunks[bits >> 62]);
}

/// Nothing for a swizzle mode that does not exist.
inline std::optional<MatrixDescriptor> tcgen05_descriptor(std::uint64_t bits) {
  constexpr std::uint32_t kChunks[] = {1, 8, 8, 0, 4, 0, 2, 0};
  const auto mode = static_cast<std::uint32_t>(bits >> 61);
  if (kChunks[mode] == 0) return std::nullopt;
  MatrixDescriptor made = matrix_descriptor(bits, kChunks[mode]);
  if (mode == 1) made.atom = 2;
  return made;
}

}  // namespace cucpu
