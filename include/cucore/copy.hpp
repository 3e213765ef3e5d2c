// SPDX-License-Identifier: Apache-2.0
// cucore/copy.hpp: parameters of copies between linear memory and arrays; batched copies.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/location.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Source or destination of a copy: linear memory of any kind with packed rows, or a whole array.
struct CopyEnd {
  CUdeviceptr ptr = 0;      ///< address; ignored if `array` is not null
  CUarray array = nullptr;  ///< null: linear memory
};

/// Extent of a copy: bytes per row, rows per slice, slices. A copy of one row is a 1-D copy.
struct CopyExtent {
  std::size_t width = 0;   ///< bytes per row
  std::size_t height = 1;  ///< rows per slice
  std::size_t depth = 1;   ///< number of slices
  /// Total size in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return width * height * depth; }
  friend bool operator==(const CopyExtent&, const CopyExtent&) = default;
};

/// Returns the driver's parameters of a copy.
[[nodiscard]] CUCORE_EXPORT CUDA_MEMCPY3D copy_params(CopyEnd dst, CopyEnd src, CopyExtent extent);

/// Returns the extent of a copy.
[[nodiscard]] CUCORE_EXPORT CopyExtent extent_of(const CUDA_MEMCPY3D& copy) noexcept;
/// Returns the destination of a copy. For linear memory, the address is the base without the
/// offsets dstXInBytes, dstY and dstZ.
[[nodiscard]] CUCORE_EXPORT CopyEnd destination_of(const CUDA_MEMCPY3D& copy) noexcept;
/// Returns the source of a copy. For linear memory, the address is the base without the offsets.
[[nodiscard]] CUCORE_EXPORT CopyEnd source_of(const CUDA_MEMCPY3D& copy) noexcept;

/// Replaces the given parameters of a copy and keeps the others. A new source or destination of the
/// same kind (linear memory or array) keeps the pitch and the offsets of the old one.
CUCORE_EXPORT void change_copy(CUDA_MEMCPY3D& copy, std::optional<CopyEnd> dst,
                               std::optional<CopyEnd> src, std::optional<CopyExtent> extent);

/// Returns the extent of a copy of `size` bytes. `into` and `out_of` are the extents of the
/// destination and source, if they are arrays: an array is copied as a whole. Throws
/// std::invalid_argument if the arrays' extents differ, or if `size` is not the size of the array.
[[nodiscard]] CUCORE_EXPORT CopyExtent extent_between(std::size_t size,
                                                      const std::optional<CopyExtent>& into,
                                                      const std::optional<CopyExtent>& out_of);
/// Returns the extent of a copy after change_copy() with another size or other arrays, or nullopt
/// if it does not change. Throws std::invalid_argument for another size of a copy with several
/// rows.
[[nodiscard]] CUCORE_EXPORT std::optional<CopyExtent> changed_extent(
    const CUDA_MEMCPY3D& copy, std::optional<std::size_t> size,
    const std::optional<CopyExtent>& into, const std::optional<CopyExtent>& out_of);

/// When the source of a copy is read. The values are those of CUmemcpySrcAccessOrder.
enum class MemcpySrcAccessOrder {
  stream = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,                    ///< in stream order
  during_api_call = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,  ///< before the call returns
  any = CU_MEMCPY_SRC_ACCESS_ORDER_ANY  ///< at any time, also out of stream order
};
/// Whether the driver should try to overlap a copy with kernels.
enum class MemcpyOverlapMode { standard, prefer_overlap_with_compute };

/// Options of a copy (CUmemcpyAttributes).
struct CopyOptions {
  /// When the source is read.
  MemcpySrcAccessOrder src_access_order = MemcpySrcAccessOrder::stream;
  std::optional<Location> src_location_hint{};                   ///< location of the source
  std::optional<Location> dst_location_hint{};                   ///< location of the destination
  MemcpyOverlapMode overlap_mode = MemcpyOverlapMode::standard;  ///< overlap with kernels
  friend bool operator==(const CopyOptions&, const CopyOptions&) = default;
};

/// Thrown for a stream that does not accept batched copies: a capturing stream, or the legacy
/// default stream.
class CUCORE_EXPORT BatchStreamError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~BatchStreamError() override;
};

/// Enqueues copies from srcs[i] to dsts[i] in one driver call. `options` has one element for all
/// copies, one per copy, or none. Throws std::invalid_argument if the numbers of elements or the
/// sizes differ. Throws BatchStreamError before the driver is called, because the driver's error
/// would invalidate a capture.
///
/// Managed memory with default options is copied with one call per copy: the batched copy of a GPU
/// driver was observed to read the contents of a page before a discard, not what the host has
/// written since.
CUCORE_EXPORT void copy_batch(StreamRef stream, std::span<const BufferRef> srcs,
                              std::span<const BufferRef> dsts,
                              std::span<const CopyOptions> options = {});

}  // namespace cucore
