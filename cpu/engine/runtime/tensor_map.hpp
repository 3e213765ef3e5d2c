// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tensor_map.hpp: the layout of a CUtensorMap on this device. The driver layer
// writes it, tensor copies (tensor_copy.cpp) read it, and tensormap.replace changes it.
#pragma once

#include <cstdint>

namespace cucpu {

inline constexpr char kTensorMapMagic[4] = {'c', 'u', 't', 'm'};

struct TensorMap {
  enum Mode : std::uint8_t { tiled = 0, im2col = 1, im2col_w = 2, im2col_w128 = 3 };
  char magic[4];
  std::uint8_t mode, rank, element, type;  ///< element: bytes; type: CUtensorMapDataType
  std::uint8_t interleave, swizzle, fill;  ///< the CUtensorMap* enums
  std::uint8_t atomicity;                  ///< bytes that stay together under a swizzle: TensorAtom
  std::uint32_t dims[5];                   ///< extent - 1, innermost first
  std::uint64_t address;
  std::uint64_t strides[4];  ///< bytes, of dimension 1 and up
  std::uint16_t box[5];      ///< elements; im2col: channels, pixels
  std::uint8_t steps[5];     ///< element strides
  std::uint8_t unused2;
  std::int16_t lower[3], upper[3];  ///< im2col: corners of the pixel box
};
static_assert(sizeof(TensorMap) <= 128);

/// As tensormap.replace counts them.
enum class TensorAtom : std::uint8_t { bytes16, bytes32, bytes32_flip8, bytes64 };

/// The values of CUtensorMapDataType.
enum class TensorType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
};

}  // namespace cucpu
