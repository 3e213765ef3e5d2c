// SPDX-License-Identifier: Apache-2.0
// cpu/mem/managed_ranges.hpp: advice and prefetches of managed memory, by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace cucpu::driver {

/// A preferred location or prefetch target: type and id of a CUmemLocation; type 0 for none.
struct MemoryPlace {
  int type = 0, id = 0;
  bool operator==(const MemoryPlace&) const = default;
};

struct ManagedState {
  bool read_mostly = false;
  MemoryPlace preferred, prefetched;
  std::uint64_t accessed_by = 0;  ///< a bit per device; bit 63: the host
  bool operator==(const ManagedState&) const = default;
};

/// States of the pages of one allocation, by offset. Not thread-safe.
class ManagedRanges {
 public:
  /// Changes the state of every page that overlaps [offset, offset + bytes).
  template <class F>
  void change(std::size_t offset, std::size_t bytes, F&& f) {
    const std::size_t first = offset / kPage * kPage,
                      last = (offset + bytes + kPage - 1) / kPage * kPage;
    const auto from = cut(first), to = cut(last);
    for (auto at = from; at != to; ++at) f(at->second);
    merge(first, last);
  }

  /// Calls f(state) for each run of equal states in the range; at least once.
  template <class F>
  void visit(std::size_t offset, std::size_t bytes, F&& f) const {
    auto at = states_.upper_bound(offset);
    f(at == states_.begin() ? ManagedState{} : std::prev(at)->second);
    for (; at != states_.end() && at->first < offset + bytes; ++at) f(at->second);
  }

 private:
  using States = std::map<std::size_t, ManagedState>;

  /// The run that starts at an offset, split off if necessary.
  States::iterator cut(std::size_t at) {
    const auto next = states_.lower_bound(at);
    if (next != states_.end() && next->first == at) return next;
    return states_.emplace_hint(next, at,
                                next == states_.begin() ? ManagedState{} : std::prev(next)->second);
  }
  /// Merges equal neighbouring runs in [first, last].
  void merge(std::size_t first, std::size_t last) {
    for (auto at = states_.lower_bound(first); at != states_.end() && at->first <= last;) {
      const ManagedState before = at == states_.begin() ? ManagedState{} : std::prev(at)->second;
      at = at->second == before ? states_.erase(at) : std::next(at);
    }
  }

  static constexpr std::size_t kPage = 4096;
  States states_;  // offset -> state up to the next offset
};

}  // namespace cucpu::driver
