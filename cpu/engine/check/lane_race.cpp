// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_race.cpp: data races of vector code. The rules are those of race.cpp; an
// access is a word of 64 bits (history.hpp), and its time is the interval between two barriers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "cpu/engine/check/lane_checker.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

void LaneChecker::interval_starts(BlockContext& c) {
  c.check_interval = ++interval_;
  c.check_now = std::uint64_t{interval_} << touch::kIntervalShift;
}

void LaneChecker::fence(std::uint32_t first_thread, std::uint64_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1)
    fenced_[first_thread + static_cast<unsigned>(std::countr_zero(lanes))] = true;
}

std::uint64_t LaneChecker::block_of(std::uint64_t word) const {
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), touch::interval(word),
      [](std::uint32_t interval, const auto& block) { return interval < block.first; });
  return std::prev(after)->second;
}

bool LaneChecker::ordered(std::uint64_t earlier, bool shared, std::uint32_t thread) const {
  const std::uint32_t when = touch::interval(earlier);
  if (when < (shared ? block_first_ : grid_first_))  // of another grid or block
    return shared || unordered_.empty() || !unordered_at(when);
  if (when < block_first_) {
    const auto known = known_.find(block_of(earlier));
    return known != known_.end() && when <= known->second;
  }
  if (touch::thread(earlier) == thread || when != interval_) return true;
  if (touch::thread(earlier) / 32 != thread / 32) return false;
  // After very many operations the count stands still.
  const std::uint64_t now = warp_steps_[thread / 32];
  return touch::steps(earlier) < now || now == touch::kSteps;
}

HistoryView LaneChecker::history(const BlockContext& c, std::uintptr_t address, bool shared) {
  if (!shared) return pages_.at(address);
  const std::size_t index = (address - reinterpret_cast<std::uintptr_t>(c.shared)) / 4;
  return {shared_history_.get(), index, shared_history_->words() - index};
}

bool LaneChecker::changes_nothing(const LaneAccess& access, unsigned lane) {
  if (!access.values) return false;
  const std::uint64_t address = access.address_of(lane);
  for (unsigned other = lane; other-- > 0;) {
    if ((access.lanes >> other & 1) == 0) continue;
    const std::uint64_t its = access.address_of(other);
    if (its == address) return access.values[other] == access.values[lane];
    if (its - address < access.bytes || address - its < access.bytes) return false;
  }
  return std::memcmp(reinterpret_cast<const void*>(address), &access.values[lane], access.bytes) ==
         0;
}

void LaneChecker::race(Worker& worker, BlockContext& c, const LaneAccess& access, unsigned lane,
                       std::uint64_t earlier, std::uint16_t site, bool earlier_writes,
                       std::uintptr_t pc) {
  if (const operations::Operation* const other = unordered_at(touch::interval(earlier))) {
    const std::string both =
        std::string{verb_of(access.flags)} + " of " + std::to_string(access.bytes) + " bytes by " +
        operations::describe(*operation_) + " after a" +
        (earlier_writes ? " write by " : " read by ") + operations::describe(*other) +
        ", and nothing orders the two operations";
    return report(worker, c, access, lane,
                  {kRace, 719, "data race", both, pc, access.address_of(lane)});
  }
  const std::string text = std::string{verb_of(access.flags)} + " of " +
                           std::to_string(access.bytes) + " bytes after a" +
                           ((earlier & touch::kStrong) != 0 ? "n atomic or volatile" : "") +
                           (earlier_writes ? " write" : " read") + " by " +
                           name_of_thread(worker, block_of(earlier), touch::thread(earlier),
                                          site < site_pcs_.size() ? site_pcs_[site] : 0) +
                           ", without synchronization between the two";
  report(worker, c, access, lane, {kRace, 719, "data race", text, pc, access.address_of(lane)});
}

namespace {

/// Whether nothing conflicts with an access by thread `own` (its bits of the word) to each of the
/// words: they were accessed by the same thread, in earlier intervals of the block, or not at all.
struct Quiet {
  std::uint64_t empty;  ///< words below it are of other grids, or of other blocks (shared memory)
  std::uint64_t block;  ///< words from it on are of this block
  std::uint64_t now;    ///< words from it on are of this interval

  [[nodiscard]] bool operator()(std::uint64_t word, std::uint64_t own) const {
    const bool old = word < empty || (word >= block && word < now);
    const bool same = word >= block && (word & touch::kThreadMask) == own;
    return old | same;
  }
  /// For a word of a CheckRow, and one of the group that accesses the row.
  [[nodiscard]] bool row(std::uint64_t word, std::uint64_t own) const {
    const bool old = word < empty || (word >= block && word < now);
    return old | (word >= block && ((word ^ own) & touch::kRowMask) == 0);
  }
};

/// An access to these rows, as generated code executes it (CheckEmitter). False: it is another one.
bool check_rows(CheckRow* rows, std::size_t count, bool writes, std::uint64_t own, unsigned shift,
                std::uint16_t site, const Quiet& quiet) {
  const std::uint64_t next = std::uint64_t{touch::kRowWords >> shift} << touch::kThreadShift;
  bool fine = true;
  for (std::size_t r = 0; r < count; ++r)
    fine &= quiet.row(rows[r].write, own + r * next) & quiet.row(rows[r].read, own + r * next);
  for (std::size_t r = 0; fine && r < count; ++r) {
    (writes ? rows[r].write : rows[r].read) = own + r * next;
    (writes ? rows[r].write_site : rows[r].read_site) = site;
  }
  return fine;
}

}  // namespace

/// The usual case: all lanes access neighboring words, and no other thread did so in this interval.
bool LaneChecker::check_race_together(const BlockContext& c, const LaneAccess& access) {
  if (access.addresses || access.bytes % 4 != 0 || access.address % 4 != 0 ||
      (access.flags & (kSharedSpace | kGlobalSpace)) == 0 || (access.flags & kStrong) != 0)
    return false;
  const auto lanes = static_cast<unsigned>(std::popcount(access.lanes));
  const bool uniform = access.stride == 0 && lanes > 1;
  if (!uniform && lanes > 1 && access.stride != static_cast<std::int64_t>(access.bytes))
    return false;
  const auto first_lane = static_cast<unsigned>(std::countr_zero(access.lanes));
  if (access.lanes >> first_lane != (lanes == 64 ? ~0ULL : (1ULL << lanes) - 1)) return false;
  const bool shared = (access.flags & kSharedSpace) != 0;
  const std::uintptr_t start = access.address_of(first_lane);
  if (shared) {
    const std::size_t offset = start - reinterpret_cast<std::uintptr_t>(c.shared);
    if (offset > shared_end(c) || offset + std::size_t{lanes} * access.bytes > shared_end(c))
      return false;
  }
  // malloc and free pass memory from thread to thread; no parameter points to it.
  if (!shared && access.root == 0 && g_device_heap_contains && g_device_heap_contains(start))
    return true;
  if (!shared && !unordered_.empty() && is_contested(start)) return false;
  const HistoryView view = history(c, start, shared);
  const unsigned per_lane = access.bytes / 4;
  const std::size_t words = uniform ? per_lane : std::size_t{lanes} * per_lane;
  if (words > view.words) return false;
  const Quiet quiet{shared ? c.check_block : c.check_empty, c.check_block, c.check_now};
  const std::uint32_t first = access.first_thread + first_lane;
  const std::uint64_t thread_of_first =
      quiet.now | std::uint64_t{warp_steps_[first / 32]} << touch::kStepShift |
      std::uint64_t{first} << touch::kThreadShift;
  const std::uint64_t mine = thread_of_first | touch::kBytes << touch::kBytesShift;
  const auto site = static_cast<std::uint16_t>(access.site);
  if (!uniform && view.index % touch::kRowWords == 0 && words % touch::kRowWords == 0 &&
      std::has_single_bit(per_lane) && per_lane <= 4) {
    const auto shift = static_cast<unsigned>(std::countr_zero(per_lane));
    if (check_rows(view.history->rows + view.index / touch::kRowWords, words / touch::kRowWords,
                   (access.flags & kWrite) != 0,
                   thread_of_first | std::uint64_t{shift} << touch::kShiftShift, shift, site,
                   quiet))
      return true;
  }
  view.history->open(view.index, words, quiet.now, quiet.empty);
  std::uint64_t* const write = view.history->write + view.index;
  std::uint64_t* const reads[2] = {view.history->reads[0] + view.index,
                                   view.history->reads[1] + view.index};
  std::uint32_t* const settled = view.history->settled + view.index;
  std::uint16_t* const write_site = view.history->write_site + view.index;
  std::uint16_t* const read_sites[2] = {view.history->read_sites[0] + view.index,
                                        view.history->read_sites[1] + view.index};
  constexpr std::uint64_t kNext = std::uint64_t{1} << touch::kThreadShift;
  constexpr std::uint64_t kWhole = touch::kBytes << touch::kBytesShift;
  bool fine = true;
  if ((access.flags & kWrite) != 0) {
    if (uniform) return false;
    std::uint64_t own = mine;
    for (std::size_t i = 0; i < words; i += per_lane, own += kNext)
      for (std::size_t j = i; j < i + per_lane; ++j) {
        const std::uint64_t thread = own & touch::kThreadMask;
        fine &= quiet(write[j], thread) & quiet(reads[0][j], thread) & quiet(reads[1][j], thread);
      }
    if (!fine) return false;
    own = mine;
    for (std::size_t i = 0; i < words; i += per_lane, own += kNext)
      for (std::size_t j = i; j < i + per_lane; ++j)
        write[j] = own, write_site[j] = site, settled[j] = 0;
    return true;
  }
  // Two different readers in this interval are all that a later write needs.
  bool known = true;
  std::uint64_t own = mine;
  for (std::size_t i = 0; i < words; i += per_lane, own += uniform ? 0 : kNext)
    for (std::size_t j = i; j < i + per_lane; ++j) {
      const std::uint64_t old = write[j];
      const bool before = old < quiet.empty || (old >= quiet.block && old < quiet.now);
      fine &= before | (!uniform & quiet(old, own & touch::kThreadMask));
      known &= before & (reads[0][j] >= quiet.now) & (reads[1][j] >= quiet.now) &
               ((reads[0][j] & reads[1][j] & kWhole) == kWhole);
    }
  if (!fine) return false;
  if (known) {
    std::fill_n(settled, words, interval_);
    return true;
  }
  own = mine;
  for (std::size_t i = 0; i < words; i += per_lane, own += kNext)
    for (std::size_t j = i; j < i + per_lane; ++j) {
      const std::uint64_t last = reads[0][j];
      const bool same = last >= quiet.block && ((last ^ own) & touch::kThreadMask) == 0;
      if (!same && last >= quiet.empty) reads[1][j] = last, read_sites[1][j] = read_sites[0][j];
      reads[0][j] = own, read_sites[0][j] = site;
      if (uniform) {  // a second lane of the group
        reads[1][j] = reads[0][j], read_sites[1][j] = site;
        reads[0][j] = own + (std::uint64_t{lanes - 1} << touch::kThreadShift);
      }
      if (reads[1][j] >= quiet.now && (reads[1][j] & kWhole) == kWhole && write[j] < quiet.now)
        settled[j] = interval_;
    }
  return true;
}

void LaneChecker::know_site(std::uint16_t site, std::uintptr_t pc) {
  if (site >= site_pcs_.size()) site_pcs_.resize(site + 1U);
  site_pcs_[site] = pc;
  if (site < kCheckedSites) known_sites_[site] = 1;
}

bool LaneChecker::reads_uniform(const BlockContext& c, const CheckRange& range,
                                std::uintptr_t address, std::uint32_t bytes, std::uint32_t site,
                                std::uint32_t first_thread, std::uint32_t lanes,
                                std::uintptr_t pc) {
  if (!compares_accesses() || address % 4 != 0) return false;
  const bool shared = range.low == reinterpret_cast<std::uintptr_t>(c.shared);
  const HistoryView view = history(c, address, shared);
  const std::size_t words = bytes / 4;
  if (words > view.words) return false;
  History& h = *view.history;
  const std::uint64_t empty = shared ? c.check_block : c.check_empty;
  h.open(view.index, words, c.check_now, empty);
  for (std::size_t i = view.index; i < view.index + words; ++i) {
    const std::uint64_t old = h.write[i];
    if (old >= empty && (old < c.check_block || old >= c.check_now)) return false;
  }
  const auto number = static_cast<std::uint16_t>(site);
  if (site >= kCheckedSites || known_sites_[site] == 0) know_site(number, pc);
  const std::uint64_t first =
      c.check_now | std::uint64_t{warp_steps_[first_thread / 32]} << touch::kStepShift |
      std::uint64_t{first_thread} << touch::kThreadShift | touch::kBytes << touch::kBytesShift;
  for (std::size_t i = view.index; i < view.index + words; ++i) {
    h.reads[1][i] = first;
    h.reads[0][i] = first + (std::uint64_t{lanes - 1} << touch::kThreadShift);
    h.read_sites[0][i] = h.read_sites[1][i] = number;
    h.settled[i] = interval_;
  }
  return true;
}

bool LaneChecker::is_read_only(const BlockContext& c, const LaneAccess& access,
                               std::uintptr_t allocation) {
  if ((access.flags & kReadOnly) == 0) return false;
  const auto own = hooks().find_allocation(access.root);
  if (!own || own->base != allocation) return false;
  for (std::uint64_t left = access.written; left != 0; left >>= written_parameters::kBits) {
    std::uint64_t value = 0;
    std::memcpy(&value, c.params + (left & written_parameters::kMask) - 1, sizeof value);
    const auto written = hooks().find_allocation(value);
    if (!written || written->id == own->id) return false;
  }
  return true;
}

bool LaneChecker::reads_read_only(const CheckRange& range, const LaneAccess& access) const {
  if (!range.settled || range.rows || access.bytes % 4 != 0) return false;
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const std::uint64_t address = access.address_of(static_cast<unsigned>(std::countr_zero(left)));
    if (address % 4 != 0 || range.limit <= access.bytes ||
        address - range.low >= range.limit - access.bytes)
      return false;
    std::fill_n(range.settled + (address - range.low) / 4, access.bytes / 4, interval_);
  }
  return true;
}

void LaneChecker::check_race(Worker& worker, BlockContext& c, const LaneAccess& access,
                             std::uintptr_t pc) {
  if (!compares_accesses()) return;
  const auto site = static_cast<std::uint16_t>(access.site);
  know_site(site, pc);
  if (check_race_together(c, access)) return;
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    check_race_in_lane(worker, c, access, static_cast<unsigned>(std::countr_zero(left)), pc);
    if (worker.current_fault().code != 0) return;
  }
}

void LaneChecker::check_race_in_lane(Worker& worker, BlockContext& c, const LaneAccess& access,
                                     unsigned lane, std::uintptr_t pc) {
  const std::uintptr_t address = access.address_of(lane);
  const Space space = space_of(worker, c, access, address);
  if (space == Space::local) return;
  const bool shared = space == Space::shared;
  if (shared && address - reinterpret_cast<std::uintptr_t>(c.shared) + access.bytes >
                    c.reserved_shared_offset + kReservedSharedBytes)
    return;
  // malloc and free pass memory from thread to thread.
  if (!shared && g_device_heap_contains && g_device_heap_contains(address)) return;
  const std::uint32_t thread = access.first_thread + lane;
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  const bool strong = (access.flags & kStrong) != 0;
  if (strong && reads && !released_.empty()) {  // acquires what others released there
    if (const auto found = released_.find(address); found != released_.end())
      for (const auto& [other, time] : found->second) known_[other] = std::max(known_[other], time);
  }
  const auto site = static_cast<std::uint16_t>(access.site);
  const std::uint64_t mine = std::uint64_t{interval_} << touch::kIntervalShift |
                             std::uint64_t{warp_steps_[thread / 32]} << touch::kStepShift |
                             std::uint64_t{thread} << touch::kThreadShift |
                             (strong ? touch::kStrong : 0);
  for (std::uint32_t done = 0; done < access.bytes;) {
    const std::uintptr_t at = address + done;
    const auto first = static_cast<std::uint32_t>(at % 4);
    const std::uint32_t count = std::min(4 - first, access.bytes - done);
    const std::uint64_t bytes = ((1U << count) - 1) << first;
    const HistoryView view = history(c, at, shared);
    History& h = *view.history;
    const std::size_t i = view.index;
    h.open(i, 1, c.check_now, shared ? c.check_block : c.check_empty);
    const auto conflicts = [&](std::uint64_t earlier) {
      return earlier != 0 && (touch::bytes(earlier) & bytes) != 0 &&
             !(strong && (earlier & touch::kStrong) != 0) && !ordered(earlier, shared, thread);
    };
    const bool written = touch::interval(h.write[i]) >= (shared ? block_first_ : grid_first_);
    if (conflicts(h.write[i]) && !(writes && !reads && changes_nothing(access, lane)))
      race(worker, c, access, lane, h.write[i], h.write_site[i], true, pc);
    // Uninitialized memory has no value that a store could leave unchanged.
    if (writes && !(written && changes_nothing(access, lane)))
      for (unsigned n = 0; n < 2; ++n)
        if (conflicts(h.reads[n][i]))
          race(worker, c, access, lane, h.reads[n][i], h.read_sites[n][i], false, pc);
    if (writes && !shared && !unordered_.empty()) {  // reads that only set `settled`
      const std::uint64_t read = std::uint64_t{h.settled[i]} << touch::kIntervalShift;
      if (h.settled[i] != 0 && unordered_at(h.settled[i]) &&
          !(written && changes_nothing(access, lane)))
        race(worker, c, access, lane, read, 0xffff, false, pc);
    }
    const std::uint64_t now = mine | bytes << touch::kBytesShift;
    if (writes) {
      h.settled[i] = 0;
      h.write[i] = now;
      h.write_site[i] = site;
    } else {
      const std::uint64_t last = h.reads[0][i];
      const bool same = touch::interval(last) >= block_first_ && touch::thread(last) == thread;
      if (!same && touch::interval(last) >= (shared ? block_first_ : grid_first_)) {
        h.reads[1][i] = last;
        h.read_sites[1][i] = h.read_sites[0][i];
      }
      h.reads[0][i] = now;
      h.read_sites[0][i] = site;
    }
    done += count;
  }
  if (strong && writes && ((access.flags & kRelease) != 0 || fenced_[thread])) {
    auto& released = released_[address];
    for (const auto& [other, time] : known_) released[other] = std::max(released[other], time);
    released[block_] = interval_;
  }
}

}  // namespace cucpu
