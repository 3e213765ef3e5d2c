// cpu/engine/run/work_stealing.cpp
#include "cpu/engine/run/work_stealing.hpp"

#include <algorithm>
#include <thread>

namespace cucpu {
namespace {

constexpr std::uint64_t pack(std::uint64_t first, std::uint64_t last) { return first << 32 | last; }
constexpr std::uint64_t first_of(std::uint64_t run) { return run >> 32; }
constexpr std::uint64_t last_of(std::uint64_t run) { return run & 0xffffffff; }

}  // namespace

Dealer::Dealer(std::uint64_t clusters, bool in_order, std::uint64_t processors)
    : clusters_{clusters}, in_order_{in_order} {
  static const std::uint64_t here = std::max(1U, std::thread::hardware_concurrency());
  if (processors == 0) processors = here;
  // Few atomic operations for large grids, an even end for small ones.
  share_ = static_cast<std::uint16_t>(std::min<std::uint64_t>(4 * processors, 1024));
  unit_ = in_order ? 1 : std::clamp<std::uint64_t>(clusters / (16 * processors), 1, 64);
  unit_ = std::max(unit_, (clusters >> 31) + 1);  // units fit into 32 bits
  const std::uint64_t units = unit_ == 1 ? clusters : (clusters + unit_ - 1) / unit_;
  near_[0].store(pack(0, units), std::memory_order_relaxed);
  if (const std::uint64_t most = std::min({units, processors, std::uint64_t{kHands}});
      most > kNear && !in_order) {
    far_ = decltype(far_)(most - kNear);
    hands_ = static_cast<std::uint8_t>(most);
  }
}

void Dealer::only(std::uint64_t cluster) noexcept {
  clusters_ = cluster + 1;
  unit_ = std::max<std::uint64_t>(1, cluster);  // the cluster is unit 1, or 0
  const std::uint64_t unit = cluster / unit_;
  near_[0].store(pack(unit, unit + 1), std::memory_order_relaxed);
}

unsigned Dealer::join() noexcept {
  return std::min(joined_.fetch_add(1, std::memory_order_relaxed), std::uint32_t{hands_});
}

Dealer::Range Dealer::clusters_of(std::uint64_t first, std::uint64_t last) const noexcept {
  return {first * unit_, std::min(last * unit_, clusters_)};
}

// A run says all there is to know, and nothing else depends on it: relaxed operations will do. What
// blocks write is published by Grid::finish.
bool Dealer::claim(unsigned hand, Range& range) noexcept {
  const unsigned own = in_order_ ? 0 : hand;
  if (own < hands_) {
    Run& mine = run_of(own);
    std::uint64_t run = mine.load(std::memory_order_relaxed);
    while (first_of(run) < last_of(run)) {
      const std::uint64_t first = first_of(run);
      // The first to come leaves the most for those that are still on their way.
      const std::uint64_t many = in_order_ ? 1 : std::min((last_of(run) - first) / share_, first);
      const std::uint64_t last = first + std::max<std::uint64_t>(1, many);
      if (mine.compare_exchange_weak(run, pack(last, last_of(run)), std::memory_order_relaxed)) {
        range = clusters_of(first, last);
        return true;
      }
    }
  }
  return !in_order_ && take_over(hand, range);
}

bool Dealer::take_over(unsigned hand, Range& range) noexcept {
  for (;;) {
    const unsigned hands = std::min(joined_.load(std::memory_order_relaxed), std::uint32_t{hands_});
    unsigned longest = 0;
    std::uint64_t run = 0, length = 0;
    for (unsigned other = 0; other < hands; ++other) {
      const std::uint64_t theirs = run_of(other).load(std::memory_order_relaxed);
      if (last_of(theirs) - first_of(theirs) <= length) continue;
      longest = other;
      run = theirs;
      length = last_of(theirs) - first_of(theirs);
    }
    if (length == 0) return false;
    const std::uint64_t last = last_of(run);
    const std::uint64_t first = hand < hands_ ? last - (length + 1) / 2 : last - 1;
    if (!run_of(longest).compare_exchange_strong(run, pack(first_of(run), first),
                                                 std::memory_order_relaxed))
      continue;
    if (first + 1 < last) run_of(hand).store(pack(first + 1, last), std::memory_order_relaxed);
    range = clusters_of(first, first + 1);
    return true;
  }
}

std::uint64_t Dealer::drop_rest() noexcept {
  std::uint64_t dropped = 0;
  for (unsigned hand = 0; hand < hands_; ++hand) {
    const std::uint64_t rest = run_of(hand).exchange(0, std::memory_order_relaxed);
    if (first_of(rest) == last_of(rest)) continue;
    const Range range = clusters_of(first_of(rest), last_of(rest));
    dropped += range.last - range.first;
  }
  return dropped;
}

}  // namespace cucpu
