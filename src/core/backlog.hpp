// SPDX-License-Identifier: Apache-2.0
// backlog.hpp: counts the work that a language binding has enqueued and not yet synchronized with.
// A call may keep the binding's lock while enqueuing only if the driver's queue has room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore::detail {

/// Work per stream that may still be pending. Guarded by the binding's lock. The fields that the
/// common path reads come first and share one cache line.
class alignas(64) Backlog {
 public:
  /// Limit of pending calls: half of the number that NVIDIA's driver queues before a call blocks
  /// (1,020 on an H200).
  static constexpr unsigned kMost = 512;

  /// Counts one call. Returns false if so much work is pending that the call may block.
  [[gnu::always_inline]] bool add(CUstream stream, unsigned weight = 1) noexcept {
    if (parts_[0].stream != stream && !bring_forward(stream)) [[unlikely]]
      return false;
    if (total_ >= kMost) return false;
    parts_[0].queued += weight;
    total_ += weight;
    return true;
  }
  /// Returns the pending work of a stream. Read it before synchronizing with the stream and pass it
  /// to drained() afterwards, because other threads may add work in between.
  [[nodiscard]] unsigned on(CUstream stream) const noexcept {
    for (const Part& part : parts_) {
      if (part.stream == stream) return part.queued;
    }
    return 0;
  }
  void drained(CUstream stream, unsigned queued) noexcept {
    if (queued == 0) return;
    for (Part& part : parts_) {
      if (part.stream != stream) continue;
      const unsigned done = std::min(queued, part.queued);
      part.queued -= done;
      total_ -= done;
    }
  }
  /// Subtracts the work that a synchronization with all streams completed; `before` is a copy of
  /// the backlog from before that synchronization.
  void drained(const Backlog& before) noexcept {
    for (const Part& part : before.parts_) drained(part.stream, part.queued);
  }

 private:
  struct Part {
    CUstream stream = nullptr;
    unsigned queued = 0;
  };
  /// Moves the entry of `stream`, or else a free one, to the front. Returns false if all entries
  /// are in use by other streams.
  [[gnu::noinline]] bool bring_forward(CUstream stream) noexcept {
    Part* found = nullptr;
    for (Part& part : parts_) {
      if (part.stream == stream) {
        found = &part;
        break;
      }
      if (part.queued == 0) found = &part;
    }
    if (found == nullptr) return false;
    found->stream = stream;
    std::swap(parts_[0], *found);
    return true;
  }

  static constexpr std::size_t kStreams = 8;
  unsigned total_ = 0;
  Part parts_[kStreams];
};
CUCORE_EXPORT extern Backlog backlog;

}  // namespace cucore::detail
