// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/wgmma.hpp: the operands of wgmma routines, shared by the translator and
// wgmma.cpp.
#pragma once

#include <cstdint>

namespace cucpu {

inline constexpr std::uint32_t kWgmmaRegisterA = 1;  ///< a is in registers, not in shared memory
inline constexpr std::uint32_t kWgmmaSaturate = 2;
inline constexpr std::uint32_t kWgmmaNegateA = 4, kWgmmaNegateB = 8;
inline constexpr std::uint32_t kWgmmaTransposeA = 16,
                               kWgmmaTransposeB = 32;  ///< m or n is contiguous
inline constexpr std::uint32_t kWgmmaSparse = 64;
inline constexpr std::uint32_t kWgmmaAnd = 128;  ///< .and.popc

/// The operands of one thread.
struct WgmmaOperands {
  std::uint32_t n, k;
  std::uint32_t types;  ///< ptx::Type a | b << 8 | d << 16
  std::uint32_t flags;
  std::uint64_t a, b;     ///< matrix descriptors
  std::uint32_t scale_d;  ///< 0: d is overwritten, not added to
  std::uint32_t metadata, selector;
  std::uint32_t words[4 + 128];  ///< a's fragment, then d's
};

}  // namespace cucpu
