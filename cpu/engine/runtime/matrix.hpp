// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix.hpp: the operands of matrix routines, shared by the translator and
// matrix.cpp.
// cucpu_rt_warp_mma's operands, 32-bit words: {m | n << 8 | k << 16, types a | b << 8 | c << 16 | d
// << 24 (ptx::Type), flags, word counts a | b << 8 | c << 16 | d << 24, words of a, of b, of c;
// sparse: metadata, selector}.
#pragma once

#include <cstdint>

namespace cucpu {

inline constexpr std::uint32_t kMatrixWmma =
    1;  ///< fragments in wmma's layout (emit_matrix.cpp), else mma.sync's
inline constexpr std::uint32_t kMatrixSaturate = 2;  ///< .satfinite
inline constexpr std::uint32_t kMatrixXor = 4;       ///< .xor.popc
inline constexpr std::uint32_t kMatrixAnd = 8;       ///< .and.popc
inline constexpr std::uint32_t kMatrixSparse = 16;   ///< mma.sp: half of a, and metadata
inline constexpr std::uint32_t kMatrixQuads = 32;    ///< mma.m8n8k4 of .f16: four products
inline constexpr std::uint32_t kMatrixColA = 64, kMatrixRowB = 128;  ///< of these: the layouts
inline constexpr std::uint32_t kMatrixRound = 8;  ///< shift: .rn, .rz, .rm, .rp of wmma with .f64

}  // namespace cucpu
