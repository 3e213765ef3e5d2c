// cpu/engine/run/work_stealing.hpp: deals the clusters of a grid out to the host threads that work
// on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "cpu/engine/run/free_list.hpp"

namespace cucpu {

/// Every host thread has a run of neighbouring clusters, which it goes through from the front:
/// memory is streamed, and what neighbours share stays in its caches. The first to come has all of
/// them; one without work takes the far half of the longest run. So nobody has to know how many
/// will come. Where blocks may wait for others, clusters are dealt one by one in linear order
/// instead: the earliest that have not ended are always running.
class Dealer {
 public:
  struct Range {
    std::uint64_t first = 0, last = 0;
  };

  /// `processors`: how many threads to expect; 0: as many as the machine runs at once.
  Dealer(std::uint64_t clusters, bool in_order, std::uint64_t processors = 0);
  /// Deals this cluster only. Before anybody takes part.
  void only(std::uint64_t cluster) noexcept;

  /// A new hand, for one thread.
  [[nodiscard]] unsigned join() noexcept;
  /// The next clusters for this hand; false when nothing is left.
  bool claim(unsigned hand, Range&) noexcept;
  /// Takes what has not been claimed; how many clusters.
  std::uint64_t drop_rest() noexcept;

 private:
  using Run = std::atomic<std::uint64_t>;
  /// Those that come later share what the others have, a piece at a time.
  static constexpr unsigned kHands = 64;
  /// As many have their run here, in one line of the cache; a launch makes a dealer each time.
  static constexpr unsigned kNear = 4;

  bool take_over(unsigned hand, Range&) noexcept;
  [[nodiscard]] Range clusters_of(std::uint64_t first_unit, std::uint64_t last_unit) const noexcept;
  [[nodiscard]] Run& run_of(unsigned hand) noexcept {
    return hand < kNear ? near_[hand] : far_[hand - kNear];
  }

  std::uint64_t clusters_;
  std::uint64_t unit_;  ///< clusters that are claimed together
  bool in_order_;
  std::uint8_t hands_ = kNear;  ///< how many have a run
  /// A hand claims this part of what its run still has, one unit at the least: a claim waits for
  /// all loads and stores before it, so there are few, and the last ones are small.
  std::uint16_t share_;
  std::atomic<std::uint32_t> joined_{0};
  /// The run of each hand, in units: first << 32 | last. Its owner fills it when it is empty.
  std::array<Run, kNear> near_{};
  std::vector<Run, RecyclingAllocator<Run>> far_;  ///< where there may be more hands than that
};

}  // namespace cucpu
