// cpu/engine/run/dealer.hpp: deals the clusters of a grid out to the host threads that work on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cucpu {

/// Every host thread has a run of neighbouring clusters, which it goes through from the front: memory
/// is streamed, and what neighbours share stays in its caches. The first to come has all of them; one
/// without work takes the far half of the longest run. So nobody has to know how many will come.
/// Where blocks may wait for others, clusters are dealt one by one in linear order instead: the
/// earliest that have not ended are always running.
class Dealer {
 public:
  struct Range {
    std::uint64_t first = 0, last = 0;
  };

  Dealer(std::uint64_t clusters, bool in_order) noexcept;
  /// Deals this cluster only. Before anybody takes part.
  void only(std::uint64_t cluster) noexcept;

  /// A new hand, for one thread.
  [[nodiscard]] unsigned join() noexcept;
  /// The next clusters for this hand; false when nothing is left.
  bool claim(unsigned hand, Range&) noexcept;
  /// Takes what has not been claimed; how many clusters.
  std::uint64_t drop_rest() noexcept;

 private:
  /// Those that come later share what the others have, a piece at a time.
  static constexpr unsigned kHands = 64;

  bool take_over(unsigned hand, Range&) noexcept;
  [[nodiscard]] Range clusters_of(std::uint64_t first_unit, std::uint64_t last_unit) const noexcept;

  std::uint64_t clusters_;
  std::uint64_t unit_;  ///< clusters that are claimed together
  bool in_order_;
  std::atomic<std::uint32_t> joined_{0};
  /// The run of each hand, in units: first << 32 | last. Its owner fills it when it is empty.
  std::array<std::atomic<std::uint64_t>, kHands> runs_{};
};

}  // namespace cucpu
