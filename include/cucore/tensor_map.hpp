// SPDX-License-Identifier: Apache-2.0
// cucore/tensor_map.hpp: tensor maps for the tensor memory accelerator (compute capability 9.0+).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/dlpack.hpp"
#include "cucore/export.hpp"

namespace cucore {

/// Element type of a tensor. The values are those of CUtensorMapDataType.
enum class TensorMapDataType {
  uint8,
  uint16,
  uint32,
  int32,
  uint64,
  int64,
  float16,
  float32,
  float64,
  bfloat16,
  float32_ftz,
  tfloat32,
  tfloat32_ftz
};
/// Returns the size of an element in bytes. Throws std::invalid_argument for an invalid value.
[[nodiscard]] CUCORE_EXPORT std::size_t element_bytes(TensorMapDataType type);
/// Returns the element type for a DLPack type, or std::nullopt if tensor maps do not support it.
[[nodiscard]] CUCORE_EXPORT std::optional<TensorMapDataType> tensor_map_type(
    dlpack::DLDataType type) noexcept;

/// Interleave layout of the channels.
enum class TensorMapInterleave { none, interleave_16b, interleave_32b };
/// Swizzle pattern of the shared memory banks.
enum class TensorMapSwizzle { none, swizzle_32b, swizzle_64b, swizzle_128b };
/// L2 promotion: the fetch size of L2.
enum class TensorMapL2Promotion { none, l2_64b, l2_128b, l2_256b };
/// Fill value of out-of-bounds elements.
enum class TensorMapOOBFill { none, nan_request_zero_fma };

/// A non-owning reference to a tensor in device memory. Dimensions are outermost first.
struct TensorRef {
  CUdeviceptr ptr = 0;              ///< address, aligned to 16 bytes
  std::vector<std::int64_t> shape;  ///< extents of one to five dimensions
  /// Strides in elements, one per dimension; the last one must be 1. Empty: contiguous in C order.
  std::vector<std::int64_t> strides{};
  TensorMapDataType data_type = TensorMapDataType::float32;  ///< element type
};

/// Options of a tensor map. Dimensions are outermost first.
struct TensorMapDescriptorOptions {
  std::vector<std::int64_t> box_dim;            ///< extents of a tile, 1 to 256 each
  std::vector<std::int64_t> element_strides{};  ///< traversal strides, 1 to 8 each; empty: all 1
  TensorMapInterleave interleave = TensorMapInterleave::none;      ///< interleave layout
  TensorMapSwizzle swizzle = TensorMapSwizzle::none;               ///< swizzle pattern
  TensorMapL2Promotion l2_promotion = TensorMapL2Promotion::none;  ///< L2 promotion
  TensorMapOOBFill oob_fill = TensorMapOOBFill::none;              ///< out-of-bounds fill value
};

/// A tensor map, with which the tensor memory accelerator (compute capability 9.0 and later) copies
/// tiles of a tensor. Pass it to a kernel parameter `__grid_constant__ const CUtensorMap`. Does not
/// keep the tensor's memory alive.
class CUCORE_EXPORT TensorMapDescriptor {
 public:
  /// Encodes a tensor map. Throws std::invalid_argument, naming the value, if the tensor memory
  /// accelerator does not support the tensor or the options.
  TensorMapDescriptor(const TensorRef& tensor, const TensorMapDescriptorOptions& options);
  /// Replaces the address of the tensor; shape, strides and element type stay the same.
  void replace_address(CUdeviceptr ptr);

  /// Returns the number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// Returns the element type.
  [[nodiscard]] TensorMapDataType data_type() const noexcept { return data_type_; }
  /// Returns the driver's structure of 128 bytes.
  [[nodiscard]] const CUtensorMap& raw() const noexcept { return raw_; }
  /// Returns the value that launch() passes to the kernel.
  [[nodiscard]] const CUtensorMap& kernel_argument() const noexcept { return raw_; }

 private:
  CUtensorMap raw_{};
  std::size_t rank_;
  TensorMapDataType data_type_;
};

}  // namespace cucore
