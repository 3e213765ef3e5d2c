// SPDX-License-Identifier: Apache-2.0
// cucore/copy.hpp: what a copy between linear memory and arrays is made of, and many copies in one
// call.
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
  friend bool operator==(const CopyExtent&, const CopyExtent&) = default;
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

/// How much a copy of `size` bytes copies where these are the arrays at its ends: an array is
/// copied as a whole. Throws std::invalid_argument for arrays of different sizes, and for another
/// size.
[[nodiscard]] CUCORE_EXPORT CopyExtent extent_between(std::size_t size,
                                                      const std::optional<CopyExtent>& into,
                                                      const std::optional<CopyExtent>& out_of);
/// How much a copy copies after change_copy() with another size or other arrays; nothing where that
/// stays as it is. Throws std::invalid_argument for another size of a copy of several rows.
[[nodiscard]] CUCORE_EXPORT std::optional<CopyExtent> changed_extent(
    const CUDA_MEMCPY3D& copy, std::optional<std::size_t> size,
    const std::optional<CopyExtent>& into, const std::optional<CopyExtent>& out_of);

/// When the source of a copy is read; the values are the driver's.
enum class MemcpySrcAccessOrder {
  stream = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,                    ///< when the stream gets there
  during_api_call = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,  ///< before the call returns
  any = CU_MEMCPY_SRC_ACCESS_ORDER_ANY                           ///< at any time
};
/// Whether a copy may give way to kernels.
enum class MemcpyOverlapMode { standard, prefer_overlap_with_compute };

/// How a copy is made.
struct CopyOptions {
  MemcpySrcAccessOrder src_access_order = MemcpySrcAccessOrder::stream;  ///< when it reads
  std::optional<Location> src_location_hint{};                           ///< where the source lies
  std::optional<Location> dst_location_hint{};                   ///< where the destination lies
  MemcpyOverlapMode overlap_mode = MemcpyOverlapMode::standard;  ///< beside kernels
  friend bool operator==(const CopyOptions&, const CopyOptions&) = default;
};

/// A stream that takes no batch of copies: one that is being captured, or the legacy default
/// stream.
class CUCORE_EXPORT BatchStreamError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~BatchStreamError() override;
};

/// Copies each source to the destination at the same place, in one call; `options` is one for all,
/// one each, or none. Throws std::invalid_argument for numbers or sizes that differ, and
/// BatchStreamError before the driver is called: its own refusal would end a capture.
///
/// Managed memory whose options are the standard ones is copied piece by piece: the batch of a
/// GPU's driver was seen to read what such a page held before it was discarded, not what the host
/// has written since.
CUCORE_EXPORT void copy_batch(StreamRef stream, std::span<const BufferRef> srcs,
                              std::span<const BufferRef> dsts,
                              std::span<const CopyOptions> options = {});

}  // namespace cucore
