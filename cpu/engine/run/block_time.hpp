// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_time.hpp: how long the blocks of a kernel take, as earlier grids show.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace cucpu {

/// An estimate that decides how many threads are worth calling to a grid. Lock-free; concurrent
/// grids may overwrite each other's results.
class BlockTime {
 public:
  BlockTime() = default;
  BlockTime(const BlockTime& other) noexcept : picoseconds_{other.picoseconds_.load()} {}
  BlockTime& operator=(const BlockTime&) = delete;

  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  /// Nanoseconds that one thread needs for so many clusters; kUnknown before the first record().
  [[nodiscard]] std::uint64_t of(std::uint64_t clusters) const noexcept {
    const std::uint64_t one = picoseconds_.load(std::memory_order_relaxed);
    if (one == 0 || clusters > kUnknown / one) return kUnknown;
    return one * clusters / 1000;
  }

  /// A thread has run `clusters` (not 0) in `nanoseconds`; `alone`: no other thread took part. A
  /// few microseconds beside other threads are mostly the costs of dividing a grid: such an
  /// estimate shrinks until one thread runs the grid alone and measures it. One long interruption
  /// must not look like a long grid, so short times at most double the estimate.
  void record(std::uint64_t clusters, std::uint64_t nanoseconds, bool alone) noexcept {
    constexpr std::uint64_t kMostlyBlocks = 20'000, kNoInterruption = 100'000;
    const std::uint64_t before = picoseconds_.load(std::memory_order_relaxed);
    const std::uint64_t less = before - before / 8;
    const std::uint64_t now =
        std::max<std::uint64_t>(1, std::min(nanoseconds, kUnknown / 1000) * 1000 / clusters);
    std::uint64_t next = now;
    if (before != 0 && !alone && nanoseconds < kMostlyBlocks)
      next = less;
    else if (before != 0)
      next = std::max(less, nanoseconds < kNoInterruption ? std::min(now, 2 * before) : now);
    if (next != before) picoseconds_.store(next, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> picoseconds_{0};  // of one cluster; 0: unknown
};

}  // namespace cucpu
