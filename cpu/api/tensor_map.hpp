// cpu/api/tensor_map.hpp: what is inside a CUtensorMap of the CPU device. Device code (cp.async.bulk.tensor) reads it.
#pragma once

#include <cstdint>

#include "api/abi.hpp"

namespace cucpu::driver {

inline constexpr char kTensorMapMagic[4] = {'c', 'u', 't', 'm'};

struct TensorMap {
  enum Mode : std::uint8_t { tiled = 0, im2col = 1 };
  char magic[4];
  std::uint8_t mode, rank, element, type;           ///< element: bytes; type: CUtensorMapDataType
  std::uint8_t interleave, swizzle, fill, unused;   ///< the CUtensorMap* enums
  std::uint32_t dims[5];                            ///< extent - 1, innermost first
  std::uint64_t address;
  std::uint64_t strides[4];                         ///< bytes, of dimension 1 and up
  std::uint16_t box[5];                             ///< elements; im2col: channels, pixels
  std::uint8_t steps[5];                            ///< element strides
  std::uint8_t unused2;
  std::int16_t lower[3], upper[3];                  ///< im2col: corners of the pixel box
};
static_assert(sizeof(TensorMap) <= 128);

void write_tensor_map(CUtensorMap* out, const TensorMap& map);

}  // namespace cucpu::driver
