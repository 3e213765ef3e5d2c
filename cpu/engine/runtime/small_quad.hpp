// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/small_quad.hpp: arithmetic with four small floats in a register, shared by the
// translator and the routine.
#pragma once

#include <cstdint>

namespace cucpu {

/// The format of an operand. e2m1: in 4 bits each; e2m1p4: in the lower halves of bytes.
enum class SmallQuad : std::uint32_t { e4m3, e5m2, e3m2, e2m3, e2m1, e2m1p4, ue8m0 };

/// What the routine computes: a * b, a * b + c, a + c or a - c.
inline constexpr std::uint32_t kQuadMul = 1, kQuadAdd = 2, kQuadSub = 4;
inline constexpr std::uint32_t kQuadFinite = 8;   ///< .satfinite
inline constexpr std::uint32_t kQuadE5M2 = 16;    ///< of c and the result; else e4m3
inline constexpr std::uint32_t kQuadFormats = 8;  ///< shift: SmallQuad of a, and 4 bits up of b

}  // namespace cucpu
