// SPDX-License-Identifier: Apache-2.0
// cucore/tensor_map.hpp: descriptors by which the tensor memory accelerator (compute capability 9.0
// and later) moves tiles of a tensor.
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

/// What a tensor's elements are; the values are the driver's.
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
/// Bytes of one element. Throws std::invalid_argument for a number that is no type.
[[nodiscard]] CUCORE_EXPORT std::size_t element_bytes(TensorMapDataType type);
/// The type of DLPack's elements; nothing where a tensor map cannot hold them.
[[nodiscard]] CUCORE_EXPORT std::optional<TensorMapDataType> tensor_map_type(
    dlpack::DLDataType type) noexcept;

enum class TensorMapInterleave { none, interleave_16b, interleave_32b };       ///< Of channels.
enum class TensorMapSwizzle { none, swizzle_32b, swizzle_64b, swizzle_128b };  ///< Of banks.
enum class TensorMapL2Promotion { none, l2_64b, l2_128b, l2_256b };  ///< Of what is fetched.
enum class TensorMapOOBFill { none, nan_request_zero_fma };          ///< Of what is out of bounds.

/// A tensor in device memory, its dimensions outermost first. `strides` are in elements; empty: the
/// elements are dense.
struct TensorRef {
  CUdeviceptr ptr = 0;                                       ///< a multiple of 16
  std::vector<std::int64_t> shape;                           ///< one to five extents
  std::vector<std::int64_t> strides{};                       ///< one per dimension, the last is 1
  TensorMapDataType data_type = TensorMapDataType::float32;  ///< of an element
};

/// How tiles are moved. `box_dim` is the tile's extents, outermost first.
struct TensorMapDescriptorOptions {
  std::vector<std::int64_t> box_dim;            ///< one per dimension, 1 to 256
  std::vector<std::int64_t> element_strides{};  ///< one per dimension, 1 to 8; empty: all 1
  TensorMapInterleave interleave = TensorMapInterleave::none;      ///< of channels
  TensorMapSwizzle swizzle = TensorMapSwizzle::none;               ///< of banks
  TensorMapL2Promotion l2_promotion = TensorMapL2Promotion::none;  ///< of what is fetched
  TensorMapOOBFill oob_fill = TensorMapOOBFill::none;              ///< of what is out of bounds
};

/// A tensor map, to pass to a kernel's `__grid_constant__ const CUtensorMap`. Names the tensor's
/// memory and does not keep it.
class CUCORE_EXPORT TensorMapDescriptor {
 public:
  /// Throws std::invalid_argument that names what the accelerator cannot do.
  TensorMapDescriptor(const TensorRef& tensor, const TensorMapDescriptorOptions& options);
  /// Uses another tensor of the same shape, strides and type.
  void replace_address(CUdeviceptr ptr);

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }  ///< how many dimensions
  /// of an element
  [[nodiscard]] TensorMapDataType data_type() const noexcept { return data_type_; }
  /// The driver's 128 bytes.
  [[nodiscard]] const CUtensorMap& raw() const noexcept { return raw_; }
  /// What launch() passes.
  [[nodiscard]] const CUtensorMap& kernel_argument() const noexcept { return raw_; }

 private:
  CUtensorMap raw_{};
  std::size_t rank_;
  TensorMapDataType data_type_;
};

}  // namespace cucore
