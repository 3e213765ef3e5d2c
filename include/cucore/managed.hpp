// SPDX-License-Identifier: Apache-2.0
// cucore/managed.hpp: memory that moves between host and devices by itself: where it should be, who
// uses it, and moving it ahead of its use.
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

/// Names managed memory without owning it: of a Buffer from a managed MemoryPool, or of
/// cuMemAllocManaged. Pass by value. What it is asked throws std::invalid_argument for memory that
/// is not managed.
class CUCORE_EXPORT ManagedRef : public BufferRef {
 public:
  using BufferRef::BufferRef;
  /// The memory of a managed buffer.
  explicit constexpr ManagedRef(BufferRef memory) noexcept : BufferRef{memory} {}

  [[nodiscard]] bool read_mostly() const;  ///< readers are given copies of their own
  void set_read_mostly(bool value) const;  ///< changes that
  /// Where the memory should be; nothing where no place is preferred.
  [[nodiscard]] std::optional<Location> preferred_location() const;
  void set_preferred_location(const std::optional<Location>& place) const;  ///< changes that
  /// The devices, and the host, that keep a mapping of the memory.
  [[nodiscard]] std::vector<Location> accessed_by() const;
  /// Lets a device, or the whole host, keep a mapping; std::invalid_argument for a NUMA node.
  void add_accessed_by(Location place) const;
  void remove_accessed_by(Location place) const;  ///< not any more
  /// These and no others. Nothing changes when one of them cannot be.
  void set_accessed_by(std::span<const Location> places) const;

  /// Moves the memory to a place before it is used there.
  void prefetch(Location place, StreamRef stream) const;
  /// Says that the contents are not needed any more; prefetch before it is written again.
  void discard(StreamRef stream) const;
  /// Moves the memory without its contents.
  void discard_prefetch(Location place, StreamRef stream) const;
};

/// Whether the driver calls memory managed.
[[nodiscard]] CUCORE_EXPORT bool is_managed(BufferRef memory);

/// Moves managed memory to places (one for all, or one each) before it is used there. Throws
/// std::invalid_argument for another number of places, CUDAError in the legacy default stream.
CUCORE_EXPORT void prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                                  std::span<const Location> places);
/// Says that the contents of managed memory are not needed any more. Prefetch before it is written
/// again, or use discard_prefetch_batch(): a GPU's driver may take what the host writes to a
/// discarded page for discarded too.
CUCORE_EXPORT void discard_batch(StreamRef stream, std::span<const BufferRef> buffers);
/// Moves managed memory without its contents.
CUCORE_EXPORT void discard_prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                                          std::span<const Location> places);

}  // namespace cucore
