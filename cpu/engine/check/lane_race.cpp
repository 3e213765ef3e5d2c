// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_race.cpp: data races of vector code. The rules are those of race.cpp; an
// access is a word of 64 bits (history.hpp), and its time is the interval between two barriers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "cpu/engine/check/lane_checker.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

void LaneChecker::fence(std::uint32_t first_thread, std::uint64_t lanes) {
  has_fenced_ = true;
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
    const std::string both = operations::describe_race(*operation_, verb_of(access.flags),
                                                       access.bytes, *other, earlier_writes);
    return report(worker, c, access, lane,
                  {kRace, 719, "data race", both, pc, access.address_of(lane)});
  }
  const std::string text = race_text(
      access.flags, access.bytes,
      {(earlier & touch::kStrong) != 0, earlier_writes,
       name_of_thread(worker, block_of(earlier), touch::thread(earlier), pc_of_site(site))});
  report(worker, c, access, lane, {kRace, 719, "data race", text, pc, access.address_of(lane)});
}

namespace {

/// Whether accesses are ordered before those of a thread in this interval, without knowledge of
/// warp operations and of other blocks.
struct Quiet {
  std::uint64_t empty;  ///< words below it are of other grids, or of other blocks (shared memory)
  std::uint64_t block;  ///< words from it on are of this block
  std::uint64_t now;    ///< words from it on are of this interval

  [[nodiscard]] bool is_old(std::uint64_t word) const {
    return (word < empty) | ((word >= block) & (word < now));
  }
  /// `own`: the bits of the thread.
  [[nodiscard]] bool operator()(std::uint64_t word, std::uint64_t own) const {
    return is_old(word) | ((word >= block) & ((word & touch::kThreadMask) == own));
  }
  /// The same for a word of a CheckRow. Words of different blocks may be behind one with kDetailed;
  /// in shared memory all of them are of this block.
  [[nodiscard]] bool is_old_row(std::uint64_t row) const {
    return is_old(row) & ((row < empty) | (empty == block) | ((row & touch::kDetailed) == 0));
  }
  [[nodiscard]] bool row(std::uint64_t row, std::uint64_t own) const {
    return is_old_row(row) | ((row >= block) & (((row ^ own) & touch::kRowMask) == 0));
  }
};

/// The same for shared memory: words of other blocks are older than all of this one.
struct QuietShared {
  std::uint64_t empty, now;
  std::uint64_t block = empty;

  [[nodiscard]] bool is_old(std::uint64_t word) const { return word < now; }
  [[nodiscard]] bool operator()(std::uint64_t word, std::uint64_t own) const {
    return (word < now) | ((word & touch::kThreadMask) == own);
  }
  [[nodiscard]] bool is_old_row(std::uint64_t row) const { return row < now; }
  [[nodiscard]] bool row(std::uint64_t row, std::uint64_t own) const {
    return (row < now) | (((row ^ own) & touch::kRowMask) == 0);
  }
};

/// An access to these rows, as generated code executes it (CheckEmitter). False: it is another one.
template <class Q>
bool check_rows(CheckRow* rows, std::size_t count, bool writes, std::uint64_t own, unsigned shift,
                std::uint16_t site, const Q& quiet) {
  const std::uint64_t next = std::uint64_t{touch::kRowWords >> shift} << touch::kThreadShift;
  bool fine = true;
  for (std::size_t r = 0; r < count; ++r)
    fine &= quiet.row(rows[r].write, own + r * next) & quiet.row(rows[r].read, own + r * next);
  for (std::size_t r = 0; fine && r < count; ++r) {
    (writes ? rows[r].write : rows[r].read) = own + r * next;
    (writes ? rows[r].write_site : rows[r].read_site) = site;
  }
  if (fine || writes) return fine;
  // Another group has read the same elements in this interval: two readers are enough.
  bool second = true;
  for (std::size_t r = 0; r < count; ++r)
    second &=
        quiet.is_old_row(rows[r].write) & (rows[r].read >= quiet.now) &
        (((rows[r].read ^ own) & (touch::kDetailed | touch::kUniform | touch::kSettled)) == 0);
  for (std::size_t r = 0; second && r < count; ++r) {
    rows[r].other_read = std::exchange(rows[r].read, (own + r * next) | touch::kSettled);
    rows[r].other_read_site = std::exchange(rows[r].read_site, site);
  }
  return second;
}

constexpr std::uint64_t kNextThread = std::uint64_t{1} << touch::kThreadShift;

/// Neighboring threads, of which `mine` is the first, write `per_lane` words each. False: one of
/// them conflicts with another access, and nothing was changed. The rows are open, here and below.
template <class Q>
bool write_words(History& h, std::size_t index, std::size_t words, unsigned per_lane,
                 std::uint64_t mine, std::uint16_t site, const Q& quiet) {
  std::uint64_t* const write = h.write + index;
  const std::uint64_t* const reads[2] = {h.reads[0] + index, h.reads[1] + index};
  // Most accesses that come here are of a few words: loops with an exit stay scalar.
  std::uint64_t own = mine;
  for (std::size_t i = 0; i < words; i += per_lane, own += kNextThread)
    for (std::size_t j = i; j < i + per_lane; ++j) {
      const std::uint64_t thread = own & touch::kThreadMask;
      if (!(quiet(write[j], thread) & quiet(reads[0][j], thread) & quiet(reads[1][j], thread)))
        return false;
    }
  own = mine;
  for (std::size_t i = 0; i < words; i += per_lane, own += kNextThread)
    for (std::size_t j = i; j < i + per_lane; ++j) write[j] = own;
  std::fill_n(h.write_site + index, words, site);
  std::fill_n(h.settled + index, words, 0);
  h.wrote(index, words, quiet.now);
  return true;
}

/// All lanes of a group read words of one row that nothing was read or written of in this interval.
template <class Q>
bool read_row_uniform(History& h, std::size_t index, std::size_t words, std::uint64_t own,
                      unsigned lanes, std::uint16_t site, const Q& quiet) {
  const auto first = static_cast<unsigned>(index % touch::kRowWords);
  if (first + words > touch::kRowWords) return false;
  CheckRow& row = h.rows[index / touch::kRowWords];
  if (!quiet.is_old_row(row.write) || !quiet.is_old(row.read)) return false;
  row.read = own | touch::kUniform;
  row.uniform = static_cast<std::uint16_t>(((1U << words) - 1) << first | (lanes - 1) << 8);
  std::fill_n(h.read_sites[0] + index, words, site);
  return true;
}

/// Like write_words. With `uniform`, so many threads read all of the words.
template <class Q>
bool read_words(History& h, std::size_t index, std::size_t words, unsigned per_lane,
                std::uint64_t mine, unsigned uniform, std::uint16_t site, const Q& quiet) {
  constexpr std::uint64_t kWhole = touch::kBytes << touch::kBytesShift;
  const std::uint64_t* const write = h.write + index;
  std::uint64_t* const reads[2] = {h.reads[0] + index, h.reads[1] + index};
  std::uint16_t* const sites[2] = {h.read_sites[0] + index, h.read_sites[1] + index};
  // Two different readers in this interval are all that a later write needs.
  bool known = true;
  std::uint64_t own = mine;
  for (std::size_t i = 0; i < words; i += per_lane, own += uniform != 0 ? 0 : kNextThread)
    for (std::size_t j = i; j < i + per_lane; ++j) {
      const bool before = quiet.is_old(write[j]);
      if (!(before | ((uniform == 0) & quiet(write[j], own & touch::kThreadMask)))) return false;
      known &= before & (reads[0][j] >= quiet.now) & (reads[1][j] >= quiet.now) &
               ((reads[0][j] & reads[1][j] & kWhole) == kWhole);
    }
  std::uint32_t* const settled = h.settled + index;
  const std::uint32_t interval = touch::interval(quiet.now);
  own = mine;
  if (known) std::fill_n(settled, words, interval);
  for (std::size_t i = 0; !known && i < words; i += per_lane, own += kNextThread)
    for (std::size_t j = i; j < i + per_lane; ++j) {
      const std::uint64_t last = reads[0][j];
      const bool same = last >= quiet.block && ((last ^ own) & touch::kThreadMask) == 0;
      if (!same && last >= quiet.empty) reads[1][j] = last, sites[1][j] = sites[0][j];
      reads[0][j] = own, sites[0][j] = site;
      if (uniform != 0) {  // a second lane of the group
        reads[1][j] = reads[0][j], sites[1][j] = site;
        reads[0][j] = own + (std::uint64_t{uniform - 1} << touch::kThreadShift);
      }
      if (reads[1][j] >= quiet.now && (reads[1][j] & kWhole) == kWhole && write[j] < quiet.now)
        settled[j] = interval;
    }
  h.has_read(index, words, quiet.now);
  return true;
}

/// An access of neighboring threads, or of all lanes of a group to the same words (`uniform`: how
/// many). `own`: the word of the first thread, without bytes. False: it conflicts with another
/// access, and nothing was changed.
template <class Q>
bool check_words(const HistoryView& view, std::size_t words, unsigned per_lane, unsigned uniform,
                 bool writes, std::uint64_t own, std::uint16_t site, const Q& quiet) {
  History& h = *view.history;
  if (uniform == 0 && view.index % touch::kRowWords == 0 && words % touch::kRowWords == 0 &&
      std::has_single_bit(per_lane) && per_lane <= 4) {
    const auto shift = static_cast<unsigned>(std::countr_zero(per_lane));
    if (check_rows(h.rows + view.index / touch::kRowWords, words / touch::kRowWords, writes,
                   own | std::uint64_t{shift} << touch::kShiftShift, shift, site, quiet))
      return true;
  }
  h.open(view.index, words, quiet.empty);
  const std::uint64_t mine = own | touch::kBytes << touch::kBytesShift;
  if (writes) return write_words(h, view.index, words, per_lane, mine, site, quiet);
  if (uniform != 0 && read_row_uniform(h, view.index, words, own, uniform, site, quiet))
    return true;
  return read_words(h, view.index, words, per_lane, mine, uniform, site, quiet);
}

/// Adds an access to one word that nothing unordered accessed. The row is open.
template <class Q>
void add_word(History& h, std::size_t i, std::uint64_t now, std::uint16_t site, bool writes,
              const Q& quiet) {
  if (writes) {
    h.settled[i] = 0;
    h.write[i] = now, h.write_site[i] = site;
    h.wrote(i, 1, quiet.now);
    return;
  }
  const std::uint64_t read = h.reads[0][i];
  const bool same = read >= quiet.block && ((read ^ now) & touch::kThreadMask) == 0;
  if (!same && read >= quiet.empty) h.reads[1][i] = read, h.read_sites[1][i] = h.read_sites[0][i];
  h.reads[0][i] = now, h.read_sites[0][i] = site;
  h.read_one(i, quiet.now);
}

}  // namespace

bool LaneChecker::access_shared_words(const BlockContext& c, const CheckRange& shared,
                                      const LaneAccess& access) {
  constexpr std::uint64_t kMostBytes = 56;  // their bits lie in eight bytes
  constexpr unsigned kFlags = kSharedSpace | kStrong | kFetch | kImage;
  if (access.range != 0 || access.addresses || access.bytes != 4 ||
      (access.flags & kFlags) != kSharedSpace || !checks(kRace) || !compares_accesses())
    return false;
  const auto first_lane = static_cast<unsigned>(std::countr_zero(access.lanes));
  const std::uint64_t lanes = access.lanes >> first_lane;
  const auto words = static_cast<unsigned>(std::popcount(lanes));
  const std::uint64_t span = std::uint64_t{4} * words;
  if ((lanes & (lanes + 1)) != 0 || (words != 1 && access.stride != 4) || span > kMostBytes)
    return false;
  const std::uint64_t offset = access.address_of(first_lane) - shared.low;
  const bool in_variable = checks(kMemory) && access.variable_bytes != 0;
  const std::uint64_t low = in_variable ? access.variable_offset : 0;
  const std::uint64_t size = in_variable ? access.variable_bytes : shared.limit - 1;
  if (offset % 4 != 0 || span > size || offset - low > size - span) return false;
  if (access.site >= kCheckedSites || known_sites_[access.site] == 0) return false;
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  if (reads && checks(kInit)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, shared.initialized + offset / 8, sizeof bits);
    if ((~(bits >> offset % 8) & ((std::uint64_t{1} << span) - 1)) != 0) return false;
  }
  const QuietShared quiet{c.check_block, c.check_now};
  const std::uint32_t first = access.first_thread + first_lane;
  const std::uint64_t own = quiet.now |
                            std::uint64_t{warp_steps_[first / 32]} << touch::kStepShift |
                            std::uint64_t{first} << touch::kThreadShift;
  const HistoryView view{shared_history_.get(), offset / 4, shared_history_->words() - offset / 4};
  if (!check_words(view, words, 1, 0, writes, own, static_cast<std::uint16_t>(access.site), quiet))
    return false;
  if (writes && checks(kInit)) shared_bytes_->set(offset, span);
  return true;
}

bool LaneChecker::access_shared_word_of_each(const BlockContext& c, const CheckRange& shared,
                                             const LaneAccess& access) {
  const bool writes = (access.flags & kWrite) != 0, strong = (access.flags & kStrong) != 0;
  // Plain writes of two lanes may conflict with each other.
  if ((access.flags & (kSharedSpace | kImage | kFetch)) != kSharedSpace || (writes && !strong) ||
      !checks(kRace) || !compares_accesses() || !are_words(access) ||
      access.site >= kCheckedSites || known_sites_[access.site] == 0)
    return false;
  const bool in_variable = checks(kMemory) && access.variable_bytes != 0;
  const std::uint64_t low = in_variable ? access.variable_offset : 0;
  const std::uint64_t size = in_variable ? access.variable_bytes : shared.limit - 1;
  if (size < 4) return false;
  const bool init = checks(kInit) && (access.flags & kRead) != 0;
  if (checks(kInit) && !init) return false;
  const QuietShared quiet{c.check_block, c.check_now};
  History& h = *shared_history_;
  const std::uint64_t* const write = h.write;
  const std::uint64_t* const reads[2] = {h.reads[0], h.reads[1]};
  const std::byte* const initialized = init ? shared.initialized : nullptr;
  // Words of other blocks are older than this interval.
  const std::uint64_t now = quiet.now, both_strong = strong ? touch::kStrong : 0;
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    const std::uint64_t offset = access.address_of(lane) - shared.low;
    if (offset % 4 != 0 || offset - low > size - 4) return false;
    if (initialized && (static_cast<unsigned>(initialized[offset / 8]) >> offset % 8 & 0xf) != 0xf)
      return false;
    const std::uint32_t thread = access.first_thread + lane;
    if (has_fenced_ && fenced_[thread]) return false;
    const std::size_t i = offset / 4;
    h.open(i, 1, quiet.empty);
    const std::uint64_t own = std::uint64_t{thread} << touch::kThreadShift;
    const auto conflicts = [&](std::uint64_t word) {
      return (word >= now) & ((word & touch::kThreadMask) != own);
    };
    if (conflicts(write[i]) & ((write[i] & both_strong) == 0)) return false;
    if (writes && (conflicts(reads[0][i]) | conflicts(reads[1][i]))) return false;
  }
  const std::uint64_t common =
      quiet.now | (strong ? touch::kStrong : 0) | touch::kBytes << touch::kBytesShift;
  const auto site = static_cast<std::uint16_t>(access.site);
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    const std::uint32_t thread = access.first_thread + lane;
    add_word(h, (access.address_of(lane) - shared.low) / 4,
             common | std::uint64_t{warp_steps_[thread / 32]} << touch::kStepShift |
                 std::uint64_t{thread} << touch::kThreadShift,
             site, writes, quiet);
  }
  return true;
}

/// The usual case: all lanes access neighboring words, and no other thread did so in this interval.
bool LaneChecker::check_race_together(const BlockContext& c, const LaneAccess& access) {
  if (access.addresses || access.bytes % 4 != 0 || access.address % 4 != 0 ||
      (access.flags & (kSharedSpace | kGlobalSpace)) == 0 ||
      (access.flags & (kStrong | kFetch)) != 0)
    return false;
  const auto lanes = static_cast<unsigned>(std::popcount(access.lanes));
  const bool uniform = access.stride == 0 && lanes > 1;
  if (!uniform && lanes > 1 && access.stride != static_cast<std::int64_t>(access.bytes))
    return false;
  const auto first_lane = static_cast<unsigned>(std::countr_zero(access.lanes));
  if (access.lanes >> first_lane != (lanes == 64 ? ~0ULL : (1ULL << lanes) - 1)) return false;
  const bool shared = (access.flags & kSharedSpace) != 0, writes = (access.flags & kWrite) != 0;
  if (uniform && writes) return false;
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
  const std::uint64_t own = quiet.now |
                            std::uint64_t{warp_steps_[first / 32]} << touch::kStepShift |
                            std::uint64_t{first} << touch::kThreadShift;
  return check_words(view, words, per_lane, uniform ? lanes : 0, writes, own,
                     static_cast<std::uint16_t>(access.site), quiet);
}

std::uint32_t LaneChecker::site_of_routine(std::uintptr_t pc) {
  const auto [at, is_new] = routine_sites_.try_emplace(pc, kUnknownSite);
  if (is_new && routine_pcs_.size() < kUnknownSite - kRoutineSites) {
    at->second = static_cast<std::uint16_t>(kRoutineSites + routine_pcs_.size());
    routine_pcs_.push_back(pc);
  }
  return at->second;
}

std::uintptr_t LaneChecker::pc_of_site(std::uint16_t site) const {
  if (site < site_pcs_.size()) return site_pcs_[site];
  const auto n = static_cast<std::size_t>(site) - kRoutineSites;
  return site >= kRoutineSites && n < routine_pcs_.size() ? routine_pcs_[n] : 0;
}

void LaneChecker::know_site(std::uint16_t site, std::uintptr_t pc) {
  if (site >= kRoutineSites) return;
  if (site >= site_pcs_.size()) site_pcs_.resize(site + 1U);
  site_pcs_[site] = pc;
  if (site < kCheckedSites) known_sites_[site] = 1;
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
  const auto first = static_cast<unsigned>(std::countr_zero(access.lanes));
  const std::uint64_t lanes = access.lanes >> first;
  if (!access.addresses && access.stride == access.bytes && (lanes & (lanes + 1)) == 0) {
    const std::uint64_t from = access.address_of(first) - range.low;
    const std::uint64_t span = static_cast<std::uint64_t>(std::popcount(lanes)) * access.bytes;
    if (from % 4 == 0 && range.limit > span && from < range.limit - span) {
      std::fill_n(range.settled + from / 4, span / 4, interval_);
      return true;
    }
  }
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
  if (site >= kCheckedSites || known_sites_[site] == 0) know_site(site, pc);
  if (check_race_together(c, access)) return;
  const bool words = are_words(access);
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    if (words && check_race_in_word(c, access, lane)) continue;
    check_race_in_lane(worker, c, access, lane, pc);
    if (worker.current_fault().code != 0) return;
  }
}

/// Whether check_race_in_word() may be asked: lanes access words, and neither publish nor learn
/// what other blocks did.
bool LaneChecker::are_words(const LaneAccess& access) const {
  const unsigned flags = access.flags;
  if (access.bytes != 4) return false;
  if ((flags & kStrong) != 0 &&
      ((flags & kRelease) != 0 || ((flags & kRead) != 0 && !released_.empty())))
    return false;
  // No parameter points to the device heap.
  return (flags & kSharedSpace) != 0 ||
         ((flags & kGlobalSpace) != 0 && access.root != 0 && unordered_.empty());
}

/// As check_race_in_lane() for the usual case: no unordered access by another thread. False:
/// another case, and nothing was changed.
bool LaneChecker::check_race_in_word(const BlockContext& c, const LaneAccess& access,
                                     unsigned lane) {
  const std::uintptr_t address = access.address_of(lane);
  const bool shared = (access.flags & kSharedSpace) != 0;
  if (address % 4 != 0) return false;
  if (shared && address - reinterpret_cast<std::uintptr_t>(c.shared) + 4 > c.reserved_shared_offset)
    return false;
  const std::uint32_t thread = access.first_thread + lane;
  const bool writes = (access.flags & kWrite) != 0, strong = (access.flags & kStrong) != 0;
  if (strong && writes && fenced_[thread]) return false;
  const Quiet quiet{shared ? c.check_block : c.check_empty, c.check_block, c.check_now};
  const HistoryView view = history(c, address, shared);
  History& h = *view.history;
  const std::size_t i = view.index;
  h.open(i, 1, quiet.empty);
  const std::uint64_t bits = std::uint64_t{thread} << touch::kThreadShift;
  const std::uint64_t last = h.write[i], read = h.reads[0][i];
  if (!(quiet(last, bits) | (strong & ((last & touch::kStrong) != 0)))) return false;
  if (writes && !(quiet(read, bits) & quiet(h.reads[1][i], bits))) return false;
  const std::uint64_t now = quiet.now |
                            std::uint64_t{warp_steps_[thread / 32]} << touch::kStepShift | bits |
                            (strong ? touch::kStrong : 0) | touch::kBytes << touch::kBytesShift;
  add_word(h, i, now, static_cast<std::uint16_t>(access.site), writes, quiet);
  return true;
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
  if ((access.flags & kImage) != 0 && is_outside_surface(address)) return;
  // malloc and free pass memory from thread to thread.
  if (!shared && g_device_heap_contains && g_device_heap_contains(address)) return;
  const std::uint32_t thread = access.first_thread + lane;
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  const bool strong = (access.flags & kStrong) != 0, fetches = (access.flags & kFetch) != 0;
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
    h.open(i, 1, shared ? c.check_block : c.check_empty);
    // What a strong read finds may say that the other operation is done.
    if (strong && reads && !shared && !unordered_.empty() &&
        unordered_at(touch::interval(h.write[i])))
      unordered_.clear();
    const auto conflicts = [&](std::uint64_t earlier) {
      return earlier != 0 && (touch::bytes(earlier) & bytes) != 0 &&
             !(strong && (earlier & touch::kStrong) != 0) &&
             (!ordered(earlier, shared, thread) ||
              (fetches && touch::interval(earlier) >= grid_first_));
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
    // The word keeps one access of this thread: with all bytes since the thread last synchronized.
    constexpr std::uint64_t kAll = touch::kBytes << touch::kBytesShift;
    const std::uint64_t before = writes ? h.write[i] : h.reads[0][i];
    const std::uint64_t own = ((before ^ mine) & ~kAll) == 0 ? before & kAll : 0;
    const std::uint64_t now = mine | bytes << touch::kBytesShift | own;
    if (writes) {
      h.settled[i] = 0;
      h.write[i] = now;
      h.write_site[i] = site;
      h.wrote(i, 1, c.check_now);
    } else {
      const std::uint64_t last = h.reads[0][i];
      const bool same = touch::interval(last) >= block_first_ && touch::thread(last) == thread;
      if (!same && touch::interval(last) >= (shared ? block_first_ : grid_first_)) {
        h.reads[1][i] = last;
        h.read_sites[1][i] = h.read_sites[0][i];
      }
      h.reads[0][i] = now;
      h.read_sites[0][i] = site;
      h.read_one(i, c.check_now);
    }
    done += count;
  }
  if (strong && writes && ((access.flags & kRelease) != 0 || fenced_[thread])) {
    if (operation_ && !shared && operations::is_host_memory(address)) *operation_->is_public = true;
    auto& released = released_[address];
    for (const auto& [other, time] : known_) released[other] = std::max(released[other], time);
    released[block_] = interval_;
  }
}

}  // namespace cucpu
