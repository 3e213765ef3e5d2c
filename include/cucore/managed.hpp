// SPDX-License-Identifier: Apache-2.0
// cucore/managed.hpp: managed memory: advice, prefetches and discards.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/location.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// A non-owning reference to managed memory from a managed MemoryPool or cuMemAllocManaged. Pass by
/// value. The attributes and prefetch() throw std::invalid_argument if the memory is not managed.
class CUCORE_EXPORT ManagedRef : public BufferRef {
 public:
  using BufferRef::BufferRef;
  /// Refers to the memory of a managed buffer.
  explicit constexpr ManagedRef(BufferRef memory) noexcept : BufferRef{memory} {}

  /// Returns whether the memory is advised as read-mostly: each reader has a read-only copy.
  [[nodiscard]] bool read_mostly() const;
  /// Sets or clears the read-mostly advice.
  void set_read_mostly(bool value) const;
  /// Returns the preferred location of the memory, or std::nullopt if it has none.
  [[nodiscard]] std::optional<Location> preferred_location() const;
  /// Sets the preferred location; std::nullopt removes it.
  void set_preferred_location(const std::optional<Location>& place) const;
  /// Returns the devices, and the host, that keep a mapping of the memory (accessed-by advice).
  [[nodiscard]] std::vector<Location> accessed_by() const;
  /// Adds a device or the whole host to accessed_by(). Throws std::invalid_argument for a NUMA
  /// node.
  void add_accessed_by(Location place) const;
  /// Removes a device or the host from accessed_by(). No-op for a NUMA node.
  void remove_accessed_by(Location place) const;
  /// Replaces accessed_by(). Throws std::invalid_argument, before anything changes, if one of the
  /// locations is a NUMA node.
  void set_accessed_by(std::span<const Location> places) const;

  /// Prefetches the memory to a location, in stream order.
  void prefetch(Location place, StreamRef stream) const;
  /// Discards the contents, in stream order. Prefetch the memory before writing it again. Throws
  /// CUDAError for the legacy default stream.
  void discard(StreamRef stream) const;
  /// Discards the contents and prefetches the memory to a location, in stream order. Throws
  /// CUDAError for the legacy default stream.
  void discard_prefetch(Location place, StreamRef stream) const;
};

/// Returns whether the driver reports the memory as managed.
[[nodiscard]] CUCORE_EXPORT bool is_managed(BufferRef memory);

/// Prefetches managed memory, in stream order. `places` has one location for all buffers, or one
/// per buffer. Throws std::invalid_argument for another number of locations, and CUDAError for the
/// legacy default stream.
CUCORE_EXPORT void prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                                  std::span<const Location> places);
/// Discards the contents of managed memory, in stream order. Prefetch the memory before writing it
/// again, or use discard_prefetch_batch(): the driver of a GPU may also discard what the host
/// writes to a discarded page. Throws CUDAError for the legacy default stream.
CUCORE_EXPORT void discard_batch(StreamRef stream, std::span<const BufferRef> buffers);
/// Discards the contents of managed memory and prefetches the memory, in stream order. `places` and
/// exceptions as for prefetch_batch().
CUCORE_EXPORT void discard_prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                                          std::span<const Location> places);

}  // namespace cucore
