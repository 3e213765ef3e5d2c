// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix.hpp: the operands of matrix routines, shared by the translator and
// matrix.cpp.
// cucpu_rt_warp_mma's operands, 32-bit words: {m | n << 8 | k << 16, types a | b << 8 | c << 16 | d
// << 24 (ptx::Type), flags, word counts a | b << 8 | c << 16 | d << 24, words of a, of b, of c;
// sparse: metadata, selector; scaled: scales of a, scales of b, selectors byte a | thread a << 8 |
// byte b << 16 | thread b << 24}.
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
inline constexpr std::uint32_t kMatrixColA = 64,
                               kMatrixRowB = 128;  ///< of these, and of wmma: the layouts
inline constexpr std::uint32_t kMatrixRound = 8;   ///< shift: .rn, .rz, .rm, .rp of wmma with .f64
inline constexpr std::uint32_t kMatrixKind =
    1 << 10;  ///< .kind::*: products are exact, and their sum is rounded once
inline constexpr std::uint32_t kMatrixBytes =
    1 << 11;  ///< elements of 4 and 6 bits are in bytes (.kind::f8f6f4, .kind::mxf8f6f4)
inline constexpr std::uint32_t kMatrixScaleE4M3 = 1 << 12;  ///< scales are .ue4m3, else .ue8m0
inline constexpr std::uint32_t kMatrixScales =
    16;  ///< shift: scales of a row of a and of a column of b; 0: not scaled

/// The layout word of ldmatrix and stmatrix: the shape, the bits of an element in memory, .trans.
enum class MatrixShape : std::uint32_t { m8n8, m8n16, m16n16, m16n8 };
inline constexpr std::uint32_t kMatrixTrans = 1, kMatrixSigned = 2;
inline constexpr std::uint32_t kMatrixShape = 4;       ///< shift: MatrixShape
inline constexpr std::uint32_t kMatrixSourceBits = 8;  ///< shift: 16, 8, 6 or 4

}  // namespace cucpu
