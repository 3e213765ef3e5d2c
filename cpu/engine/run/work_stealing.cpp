// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/work_stealing.cpp
#include "cpu/engine/run/work_stealing.hpp"

#include <algorithm>
#include <bit>
#include <thread>

namespace cucpu {
namespace {

constexpr std::uint64_t pack(std::uint64_t first, std::uint64_t last) { return first << 32 | last; }
constexpr std::uint64_t first_of(std::uint64_t packed) { return packed >> 32; }
constexpr std::uint64_t last_of(std::uint64_t packed) { return packed & 0xffffffff; }
constexpr std::uint64_t low_bits(unsigned count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

WorkStealingRanges::WorkStealingRanges(std::uint64_t clusters, bool in_order,
                                       std::uint64_t processors)
    : clusters_{clusters}, in_order_{in_order} {
  if (clusters == 1) {  // nothing to divide
    claim_divisor_ = 1;
    inline_ranges_[0].store(pack(0, 1), std::memory_order_relaxed);
    return;
  }
  static const std::uint64_t here = std::max(1U, std::thread::hardware_concurrency());
  if (processors == 0) processors = here;
  // Few atomic operations for large grids, a balanced end for small ones.
  claim_divisor_ = static_cast<std::uint16_t>(std::min<std::uint64_t>(4 * processors, 1024));
  if (!in_order) first_claim_ = std::clamp<std::uint64_t>(clusters / (16 * processors), 1, 64);
  unit_ = (clusters >> 31) + 1;  // units fit into 32 bits
  const std::uint64_t units = unit_ == 1 ? clusters : (clusters + unit_ - 1) / unit_;
  if (const std::uint64_t most = std::min({units, processors, std::uint64_t{kMaxSlots}});
      most > kInlineSlots && !in_order) {
    ranges_ = decltype(ranges_)(most * kPerLine);
    slots_ = static_cast<std::uint8_t>(most);
  }
  range_of(0).store(pack(0, units), std::memory_order_relaxed);
}

void WorkStealingRanges::restrict_to(std::uint64_t cluster) noexcept {
  clusters_ = cluster + 1;
  unit_ = std::max<std::uint64_t>(1, cluster);  // the cluster becomes unit 1, or 0
  const std::uint64_t unit = cluster / unit_;
  range_of(0).store(pack(unit, unit + 1), std::memory_order_relaxed);
}

void WorkStealingRanges::divide(std::uint64_t slots) noexcept {
  if (in_order_ || clusters_ == 1) return;
  slots &= low_bits(slots_);
  reserved_ = slots;
  joined_.store(slots, std::memory_order_relaxed);
  const std::uint64_t packed = range_of(0).load(std::memory_order_relaxed);
  const std::uint64_t first = first_of(packed), units = last_of(packed) - first;
  const auto parts = static_cast<unsigned>(std::popcount(slots));
  if (units < parts) return;
  divided_ = slots;
  // Claims are shares of a slot, and slots are small now.
  claim_divisor_ = static_cast<std::uint16_t>(std::max(4U, claim_divisor_ / parts));
  for (unsigned part = 0; part < parts; ++part, slots &= slots - 1)
    range_of(static_cast<unsigned>(std::countr_zero(slots)))
        .store(pack(first + units * part / parts, first + units * (part + 1) / parts),
               std::memory_order_relaxed);
}

unsigned WorkStealingRanges::join(unsigned wish) noexcept {
  if (in_order_ || clusters_ == 1) return 0;
  if (wish < kMaxSlots && (reserved_ >> wish & 1) != 0) return wish;
  if (wish == 0) {
    joined_.fetch_or(1, std::memory_order_relaxed);
    return 0;
  }
  std::uint64_t joined = joined_.load(std::memory_order_relaxed);
  for (;;) {
    if (wish >= slots_ || (joined >> wish & 1) != 0) {
      const std::uint64_t free = low_bits(slots_) & ~joined;
      if (free == 0) return slots_;
      wish = static_cast<unsigned>(std::countr_zero(free));
    }
    const std::uint64_t bit = std::uint64_t{1} << wish;
    joined = joined_.fetch_or(bit, std::memory_order_relaxed);
    if ((joined & bit) == 0) return wish;
  }
}

WorkStealingRanges::Range WorkStealingRanges::clusters_of(std::uint64_t first,
                                                          std::uint64_t last) const noexcept {
  return {first * unit_, std::min(last * unit_, clusters_)};
}

// A packed range is the whole state, and no other memory is published through it: relaxed
// operations suffice. Claims::publish() publishes what blocks write.
bool WorkStealingRanges::claim_own(unsigned slot, Range& range, std::uint64_t least) noexcept {
  if (clusters_ == 1) {  // small launches
    range = {0, 1};
    return range_of(0).exchange(0, std::memory_order_relaxed) != 0;
  }
  const unsigned own = in_order_ ? 0 : slot;
  if (own < slots_) {
    PackedRange& mine = range_of(own);
    std::uint64_t packed = mine.load(std::memory_order_relaxed);
    while (first_of(packed) < last_of(packed)) {
      const std::uint64_t first = first_of(packed);
      // The first claims are small (bounded by `first`): most is left to threads yet to join.
      const std::uint64_t count =
          in_order_ ? 1 : std::min((last_of(packed) - first) / claim_divisor_, first);
      const std::uint64_t last = std::min(
          first + std::max(std::max<std::uint64_t>(1, least / unit_), count), last_of(packed));
      if (mine.compare_exchange_weak(packed, pack(last, last_of(packed)),
                                     std::memory_order_relaxed)) {
        range = clusters_of(first, last);
        return true;
      }
    }
  }
  return false;
}

bool WorkStealingRanges::steal(unsigned slot, Range& range) noexcept {
  if (in_order_ || clusters_ == 1) return false;
  for (;;) {
    std::uint64_t others = used();
    if (slot < slots_) others &= ~(std::uint64_t{1} << slot);
    unsigned longest = 0;
    std::uint64_t packed = 0, length = 0;
    for (; others != 0; others &= others - 1) {
      const auto other = static_cast<unsigned>(std::countr_zero(others));
      const std::uint64_t candidate = range_of(other).load(std::memory_order_relaxed);
      if (last_of(candidate) - first_of(candidate) <= length) continue;
      longest = other;
      packed = candidate;
      length = last_of(candidate) - first_of(candidate);
    }
    if (length == 0) return false;
    const std::uint64_t last = last_of(packed);
    const bool owns_range = slot < slots_;
    const std::uint64_t first =
        last - (owns_range ? (length + 1) / 2 : std::min(length, first_claim_));
    if (!range_of(longest).compare_exchange_strong(packed, pack(first_of(packed), first),
                                                   std::memory_order_relaxed))
      continue;
    const std::uint64_t next = owns_range ? first + 1 : last;
    if (next < last) range_of(slot).store(pack(next, last), std::memory_order_relaxed);
    range = clusters_of(first, next);
    return true;
  }
}

bool WorkStealingRanges::is_empty() const noexcept {
  for (std::uint64_t slots = used(); slots != 0; slots &= slots - 1) {
    const std::uint64_t packed = const_cast<WorkStealingRanges*>(this)
                                     ->range_of(static_cast<unsigned>(std::countr_zero(slots)))
                                     .load(std::memory_order_relaxed);
    if (first_of(packed) < last_of(packed)) return false;
  }
  return true;
}

std::uint64_t WorkStealingRanges::drain() noexcept {
  std::uint64_t dropped = 0;
  for (unsigned slot = 0; slot < slots_; ++slot) {
    const std::uint64_t rest = range_of(slot).exchange(0, std::memory_order_relaxed);
    if (first_of(rest) == last_of(rest)) continue;
    const Range range = clusters_of(first_of(rest), last_of(rest));
    dropped += range.last - range.first;
  }
  return dropped;
}

}  // namespace cucpu
