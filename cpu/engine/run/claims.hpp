// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/claims.hpp: the clusters that one host thread has claimed from a grid and not yet
// started, and the number of those it has finished.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/run/clock.hpp"
#include "cpu/engine/run/work_stealing.hpp"

namespace cucpu {

/// Belongs to one host thread. Every claimed cluster is counted as finished exactly once: after it
/// ran, or by abandon().
class Claims {
 public:
  /// Starts with a grid. `now`: needed for a budget of time. `unfinished`: the clusters of the grid
  /// that no thread has finished.
  void begin(WorkStealingRanges& ranges, const WorkOptions& options = {}, std::uint64_t now = 0,
             std::atomic<std::uint64_t>* unfinished = nullptr) noexcept {
    ranges_ = &ranges;
    unfinished_ = unfinished;
    unpublished_ = 0;
    is_last_ = false;
    slot_ = ranges.join(options.part);
    budget_ends_ = options.budget_ns == 0 ? 0 : now + options.budget_ns;
    measures_first_ = options.part == 0 && options.budget_ns == 0;
    first_ended_ = 0;
    least_ = budget_ends_ == 0 ? ranges.first_claim() : 1;
    claimed_ = {};
    claim_size_ = 0;
    exhausted_ = false;
    finished_ = 0;
  }
  /// Whether next() has returned false, and nothing was put back.
  [[nodiscard]] bool is_exhausted() const noexcept {
    return exhausted_ && claimed_.first == claimed_.last;
  }
  /// The next cluster to start; false when the grid has none left.
  bool next(std::uint64_t& cluster) noexcept {
    if (claimed_.first == claimed_.last) {
      if (exhausted_) return false;
      if (!claim()) return false;
    }
    cluster = claimed_.first++;
    return true;
  }
  /// Takes back the last next(): the cluster could not be started.
  void put_back() noexcept { --claimed_.first; }
  /// Takes up to `most` claimed clusters that follow the last one in linear order; returns their
  /// number.
  std::uint32_t take_following(std::uint32_t most) noexcept {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(claimed_.last - claimed_.first, most));
    claimed_.first += count;
    return count;
  }
  void finish(std::uint64_t clusters) noexcept {
    finished_ += clusters;
    unpublished_ += clusters;
  }
  /// Subtracts the finished clusters from those of the grid. Returns true from the subtraction of
  /// the last ones on, for one thread only.
  bool publish() noexcept {
    const std::uint64_t count = std::exchange(unpublished_, 0);
    // Release: the thread that learns of the end sees all that the blocks wrote.
    if (count != 0 && unfinished_ != nullptr &&
        unfinished_->fetch_sub(count, std::memory_order_acq_rel) == count)
      is_last_ = true;
    return is_last_;
  }
  /// Counts as finished all clusters of the grid that no thread has started.
  void abandon() noexcept {
    finish(claimed_.last - claimed_.first + ranges_->drain());
    claimed_ = {};
  }
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }

  struct Measured {
    std::uint64_t clusters, nanoseconds;
  };
  /// How long the clusters of the first claim took. Only for part 0 without a budget, and if it
  /// claimed some; `now`: for a claim that is the only one.
  [[nodiscard]] Measured first_claim(std::uint64_t now) const noexcept {
    return first_ended_ != 0
               ? Measured{first_size_, first_ended_ - first_began_}
               : Measured{std::max<std::uint64_t>(1, claim_size_), now - first_began_};
  }

 private:
  bool claim() noexcept {
    if (budget_ends_ != 0)
      exhausted_ = is_over_budget();
    else if (least_ > 1)
      adapt_size();
    if (measures_first_ && claim_size_ != 0) {
      first_ended_ = now_ns();
      first_size_ = claim_size_;
      measures_first_ = false;
    }
    // Looking for clusters of other threads takes long: their end should not wait for it.
    if (exhausted_ || (!ranges_->claim_own(slot_, claimed_, least_) &&
                       (publish() || !ranges_->steal(slot_, claimed_)))) {
      claimed_ = {};
      exhausted_ = true;
      return false;
    }
    claim_size_ = claimed_.last - claimed_.first;
    if (measures_first_) first_began_ = now_ns();
    return true;
  }
  /// Claims of clusters that take long become smaller, so that the threads of a grid end at about
  /// the same time.
  void adapt_size() noexcept {
    constexpr std::uint64_t kLongest = 20'000;  // nanoseconds
    const std::uint64_t now = now_ns();
    if (const std::uint64_t took = now - claimed_at_; claim_size_ != 0 && took > kLongest)
      least_ = std::min(least_, std::max<std::uint64_t>(1, claim_size_ * kLongest / took));
    claimed_at_ = now;
  }

  /// Claims double in size, so that the clock is read a few times only.
  bool is_over_budget() noexcept {
    if (claim_size_ == 0) return false;
    least_ = 2 * claim_size_;
    return now_ns() >= budget_ends_;
  }

  WorkStealingRanges* ranges_ = nullptr;
  unsigned slot_ = 0;
  std::uint64_t least_ = 1;       ///< clusters per claim
  std::uint64_t claim_size_ = 0;  ///< of the last claim; 0: none
  std::uint64_t claimed_at_ = 0;
  std::uint64_t budget_ends_ = 0;  ///< 0: no budget
  bool measures_first_ = false;    ///< the first claim, until it has ended
  std::uint64_t first_began_ = 0, first_ended_ = 0, first_size_ = 0;
  WorkStealingRanges::Range claimed_;
  bool exhausted_ = false;
  std::uint64_t finished_ = 0;
  std::uint64_t unpublished_ = 0;  ///< of finished_
  std::atomic<std::uint64_t>* unfinished_ = nullptr;
  bool is_last_ = false;
};

}  // namespace cucpu
