// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tensor_copy.hpp: flags of tensor copies, shared by the translator and
// tensor_copy.cpp.
#pragma once

#include <cstdint>

namespace cucpu {

inline constexpr std::uint32_t kTensorRank = 7;       ///< these bits: the number of dimensions
inline constexpr std::uint32_t kTensorIm2col = 16;    ///< .im2col and .im2col_no_offs
inline constexpr std::uint32_t kTensorRows = 32;      ///< .tile::gather4 and .tile::scatter4
inline constexpr std::uint32_t kTensorWide = 64;      ///< .im2col::w
inline constexpr std::uint32_t kTensorWide128 = 128;  ///< .im2col::w::128

/// The fields of tensormap.replace, named as in the instruction.
enum class TensorField : std::uint32_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
  swizzle_atomicity,
};

}  // namespace cucpu
