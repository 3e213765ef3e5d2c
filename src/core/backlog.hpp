// SPDX-License-Identifier: Apache-2.0
// backlog.hpp: how much work a language binding has queued since waits proved that it was done. A
// call that queues more may keep the binding's lock only while the driver has room for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore::detail {

/// Only touched with the binding's lock. What the usual call looks at comes first and lies in one
/// line of the cache.
class alignas(64) Backlog {
 public:
  /// Half of what NVIDIA's driver queues before a call waits (1,020 on an H200).
  static constexpr unsigned kMost = 512;

  /// Counts a call; false when so much is queued that it may have to wait.
  [[gnu::always_inline]] bool add(CUstream stream, unsigned weight = 1) noexcept {
    if (parts_[0].stream != stream && !bring_forward(stream)) [[unlikely]]
      return false;
    if (total_ >= kMost) return false;
    parts_[0].queued += weight;
    total_ += weight;
    return true;
  }
  /// Asked before a wait for a stream, and given back when that is over: other threads may add
  /// meanwhile.
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
  /// After a wait for everything; `before` is what there was when it began.
  void drained(const Backlog& before) noexcept {
    for (const Part& part : before.parts_) drained(part.stream, part.queued);
  }

 private:
  struct Part {
    CUstream stream = nullptr;
    unsigned queued = 0;
  };
  /// Puts the part of a stream first, else one that is free; false when there is none.
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
