// cucore/copy.hpp: what a copy between linear memory and arrays is made of.
#pragma once

#include <cstddef>
#include <optional>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// One end of a copy: linear memory of any kind, its rows packed, or a whole array.
struct CopyEnd {
  CUdeviceptr ptr = 0;      ///< counts where there is no array
  CUarray array = nullptr;  ///< null: linear memory
};

/// How much is copied: rows of bytes, planes of rows. One row is a plain copy.
struct CopyExtent {
  std::size_t width = 0;   ///< bytes of a row
  std::size_t height = 1;  ///< rows of a plane
  std::size_t depth = 1;   ///< planes
  /// all of it
  [[nodiscard]] std::size_t bytes() const noexcept { return width * height * depth; }
};

/// The driver's parameters of a copy.
[[nodiscard]] CUCORE_EXPORT CUDA_MEMCPY3D copy_params(CopyEnd dst, CopyEnd src, CopyExtent extent);

/// How much a copy copies.
[[nodiscard]] CUCORE_EXPORT CopyExtent extent_of(const CUDA_MEMCPY3D& copy) noexcept;
/// Where a copy writes: of linear memory the base that offsets count from.
[[nodiscard]] CUCORE_EXPORT CopyEnd destination_of(const CUDA_MEMCPY3D& copy) noexcept;
/// Where a copy reads.
[[nodiscard]] CUCORE_EXPORT CopyEnd source_of(const CUDA_MEMCPY3D& copy) noexcept;

/// Changes what is named and leaves the rest: another end of the same kind is read or written with
/// the distances between rows, and from the place, that were there before.
CUCORE_EXPORT void change_copy(CUDA_MEMCPY3D& copy, std::optional<CopyEnd> dst,
                               std::optional<CopyEnd> src, std::optional<CopyExtent> extent);

}  // namespace cucore
