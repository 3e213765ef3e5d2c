// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/work_stealing.hpp: distributes the clusters of a grid over host threads by work
// stealing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "cpu/mem/free_list.hpp"

namespace cucpu {

/// The clusters of a grid that no host thread has claimed yet. Thread-safe and lock-free.
///
/// Each host thread owns a slot, on a cache line of its own where there are many. A slot holds a
/// contiguous range of clusters, which its owner claims from the front: neighboring blocks run on
/// one thread, so memory is streamed and shared data stays in its caches. Slot 0 starts with all
/// clusters, until divide() gives each expected thread its part: a thread with the same slot in
/// every launch of a kernel finds its memory in its caches. A thread whose slot is empty steals the
/// upper half of the longest range, so the number of threads need not be known in advance.
///
/// In order: blocks may wait for other blocks (cooperative grids, spin loops). Clusters are then
/// claimed one by one in linear order, so that the earliest unfinished clusters are always
/// resident.
class WorkStealingRanges {
 public:
  struct Range {
    std::uint64_t first = 0, last = 0;
  };

  /// `processors`: the expected number of threads; 0: std::thread::hardware_concurrency().
  WorkStealingRanges(std::uint64_t clusters, bool in_order, std::uint64_t processors = 0);
  /// Leaves this cluster only. Call it before the first join().
  void restrict_to(std::uint64_t cluster) noexcept;

  /// Divides the clusters of slot 0 over these slots (as bits, slot 0 among them), and reserves
  /// each for one thread that wishes for it. Only while no other thread uses this object.
  void divide(std::uint64_t slots) noexcept;
  /// Assigns a slot to the calling thread: the one it wishes, if that is free or reserved. Only one
  /// thread may wish for a reserved slot, or for slot 0. Threads beyond the last slot get the
  /// number of slots: they own no range and steal a few clusters at a time.
  [[nodiscard]] unsigned join(unsigned wish = ~0U) noexcept;
  [[nodiscard]] bool is_in_order() const noexcept { return in_order_; }
  /// Claims the next clusters for this slot, at least `least` unless its range is shorter; false
  /// when none is left.
  bool claim(unsigned slot, Range& range, std::uint64_t least = 1) noexcept {
    return claim_own(slot, range, least) || steal(slot, range);
  }
  /// The same without stealing from other slots, and from them only.
  bool claim_own(unsigned slot, Range&, std::uint64_t least) noexcept;
  bool steal(unsigned slot, Range&) noexcept;
  /// A good number for the first claims.
  [[nodiscard]] std::uint64_t first_claim() const noexcept { return first_claim_; }
  /// Whether all clusters have been claimed. May be out of date.
  [[nodiscard]] bool is_empty() const noexcept;
  /// Claims all remaining clusters and returns their number.
  std::uint64_t drain() noexcept;

 private:
  /// first << 32 | last, in units: one compare-and-swap changes both ends.
  using PackedRange = std::atomic<std::uint64_t>;
  static constexpr unsigned kPerLine = 64 / sizeof(PackedRange);
  static constexpr unsigned kMaxSlots = 64;
  /// Ranges stored in the object, within one cache line: every launch constructs one.
  static constexpr unsigned kInlineSlots = 4;

  /// The slots whose range may not be empty, as bits.
  [[nodiscard]] std::uint64_t used() const noexcept {
    return divided_ | joined_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Range clusters_of(std::uint64_t first_unit, std::uint64_t last_unit) const noexcept;
  [[nodiscard]] PackedRange& range_of(unsigned slot) noexcept {
    return ranges_.empty() ? inline_ranges_[slot] : ranges_[std::size_t{slot} * kPerLine];
  }

  std::uint64_t clusters_;
  std::uint64_t unit_ = 1;  ///< clusters per unit; a claim takes whole units
  std::uint64_t first_claim_ = 1;
  bool in_order_;
  std::uint8_t slots_ = kInlineSlots;
  /// A claim takes 1 / claim_divisor_ of the remaining range, or `least`. A claim waits for all
  /// earlier loads and stores, so claims are few; the last ones are small to balance the load.
  std::uint16_t claim_divisor_;
  std::uint64_t divided_ = 1;             ///< slots with a range since divide(), as bits
  std::uint64_t reserved_ = 0;            ///< by divide(), as bits
  std::atomic<std::uint64_t> joined_{0};  ///< slots with an owner, as bits
  /// Indexed by slot. Only the owner of a slot stores into an empty range.
  std::array<PackedRange, kInlineSlots> inline_ranges_{};
  /// Not empty: used instead of inline_ranges_, one per cache line.
  std::vector<PackedRange, FreeListAllocator<PackedRange>> ranges_;
};

}  // namespace cucpu
