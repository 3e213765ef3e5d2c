// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_checker.cpp: out-of-bounds accesses of lane groups, and reports.
#include "cpu/engine/check/lane_checker.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <tuple>
#include <utility>

#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

LaneChecker::LaneChecker(std::shared_ptr<const Options> options)
    : findings_{std::move(options)}, kinds_{findings_.options().kinds} {
  tracked_.resize(kCheckRanges + 1);
  g_is_checking.store(true, std::memory_order_relaxed);
}

void LaneChecker::grid_ends() noexcept {
  if (grid_first_ == 0) return;
  used_intervals(interval_);
  end_operation();
}

LaneChecker::~LaneChecker() = default;

void LaneChecker::begin_operation(Worker& worker) {
  turn_ = std::make_unique<operations::Turn>();
  operation_ = operations::of_launch();
  if (!operation_) return;
  operation_->name = "kernel " + worker.grid().code().kernel;
  unordered_ = operations::unordered(*operation_);
}

void LaneChecker::end_operation() noexcept {
  try {
    if (operation_) {
      operation_->first = grid_first_;
      operation_->last = interval_;
      operation_->pages = pages_.numbers();
      operations::ended(operation_);
    }
  } catch (...) {
    operations::disable();
  }
  pages_.end(interval_);
  turn_ = nullptr;
}

bool LaneChecker::is_contested(std::uintptr_t address) const {
  return std::any_of(unordered_.begin(), unordered_.end(), [&](const auto& other) {
    return other->pages.contains(address / HistoryPages::kPage);
  });
}

const operations::Operation* LaneChecker::unordered_at(std::uint32_t interval) const {
  for (const auto& other : unordered_)
    if (interval >= other->first && interval <= other->last) return other.get();
  return nullptr;
}

void LaneChecker::block_starts(Worker& worker, Block& block) {
  const BlockContext& c = block.context;
  progress_.blocks_start(worker, block.run + 1ULL,
                         std::uint64_t{c.grid[0]} * c.grid[1] * c.grid[2]);
  CheckRange& range = c.check_ranges[0];
  range = {};
  range.low = reinterpret_cast<std::uint64_t>(c.shared);
  range.limit = shared_end(c) + 1;
  const std::size_t bytes = c.reserved_shared_offset + kReservedSharedBytes;
  if (checks(kInit)) {
    if (!shared_bytes_ || shared_bytes_->size() < bytes)
      shared_bytes_ = std::make_unique<InitializedBytes>(bytes + 16);
    else
      shared_bytes_->clear(bytes);
    range.initialized = shared_bytes_->bits();
    range.initialized_mask = ~std::uint64_t{0};
  }
  if (!checks(kRace)) return;
  if (!shared_history_ || shared_history_->words() < bytes / 4 + 4)
    shared_history_ = std::make_unique<History>(bytes / 4 + 4);
  if (grid_first_ == 0) {  // not at the launch: earlier grids may not have ended then
    begin_operation(worker);
    grid_first_ = interval_ = next_interval();
    pages_.begin(grid_first_);
  }
  range.settled = shared_history_->settled;
  range.rows = shared_history_->rows;
  range.read_sites = shared_history_->read_sites[0];
  block_ = block_number(c);
  block_first_ = ++interval_;
  block.context.check_clock = &interval_;
  block.context.check_interval = interval_;
  block.context.check_now = std::uint64_t{interval_} << touch::kIntervalShift;
  blocks_.push_back({interval_, block_});
  warp_steps_.assign((c.block_threads + 31) / 32, 0);
  block.context.check_empty = std::uint64_t{grid_first_} << touch::kIntervalShift;
  block.context.check_block = block.context.check_now;
  block.context.check_steps = warp_steps_.data();
  block.context.check_sites = known_sites_.data();
  fenced_.assign(c.block_threads, false);
  has_fenced_ = false;
  known_.clear();
}

LaneChecker::Space LaneChecker::space_of(Worker& worker, const BlockContext& c,
                                         const LaneAccess& access, std::uintptr_t address) {
  if ((access.flags & kSharedSpace) != 0) return Space::shared;
  if ((access.flags & kGlobalSpace) != 0) return Space::global;
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(c.shared);
  if (offset < c.reserved_shared_offset + kReservedSharedBytes) return Space::shared;
  const Stack& stack = worker.current().stack;
  return address - reinterpret_cast<std::uintptr_t>(stack.base) < stack.size ? Space::local
                                                                             : Space::global;
}

void LaneChecker::report(Worker& worker, BlockContext& c, const LaneAccess& access, unsigned lane,
                         Finding finding) {
  // Block code may have stored nothing about the running group, or the first block of a strip.
  const auto restored = std::tuple{c.current_thread, c.current_lanes, c.current_blocks, c.index[0]};
  c.current_thread = access.first_thread + lane;
  c.current_lanes = c.current_blocks = 1;
  c.index[0] = access.block_x;
  findings_.report(worker, std::move(finding));
  if (worker.current_fault().code == 0)
    std::tie(c.current_thread, c.current_lanes, c.current_blocks, c.index[0]) = restored;
}

void LaneChecker::access(Worker& worker, BlockContext& c, CheckRange* ranges,
                         const LaneAccess& access, std::uintptr_t pc) {
  const bool image = (access.flags & kImage) != 0;
  if (checks(kMemory) && !image) check_memory(worker, c, ranges, access, pc);
  if (worker.current_fault().code == 0 && checks(kInit)) check_init(worker, c, access, pc);
  if (worker.current_fault().code == 0 && checks(kRace) &&
      !(access.range < kCheckRanges && reads_read_only(ranges[access.range], access)))
    check_race(worker, c, access, pc);
  if (access.range != 0 && access.range < kCheckRanges && checks(kRace | kInit) && !image)
    remember(worker, c, ranges[access.range], access);
}

// A range ends with its page of the history.
void LaneChecker::remember(Worker& worker, const BlockContext& c, CheckRange& range,
                           const LaneAccess& access) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0}, kPage = HistoryPages::kPage;
  constexpr std::uint64_t kRow = 4 * touch::kRowWords;
  const std::uint64_t address =
      access.address_of(static_cast<unsigned>(std::countr_zero(access.lanes)));
  const bool inside = address - range.low < range.limit;
  if (inside && (!checks(kRace) || range.settled) && (!checks(kInit) || range.initialized)) return;
  if (space_of(worker, c, access, address) != Space::global) return;
  std::uint64_t low = 0, end = kAll;
  if (checks(kMemory)) {
    if (!inside) return;
    low = range.low;
    if (range.limit != kAll) end = range.low + range.limit - 1;
  }
  range = {};
  const Tracked* known = nullptr;
  if (hooks().find_allocation) {  // the device heap is no allocation
    known = &tracked(access.range, address);
    if (known->size == 0) return;
    low = std::max(low, known->base);
    end = std::min(end, known->base + known->size);
  }
  if (checks(kRace)) {
    if (!unordered_.empty() && is_contested(address)) return;
    const std::uint64_t page = address / kPage * kPage;
    low = std::max(low, page);
    end = std::min(end, page + kPage);
  }
  low = (low + kRow - 1) / kRow * kRow;
  if (address < low || address >= end) return;
  CheckRange next{};
  if (checks(kRace)) {
    const HistoryView view = pages_.at(low);
    next.settled = view.history->settled + view.index;
    next.read_sites = view.history->read_sites[0] + view.index;
    if (!(known && is_read_only(c, access, known->base)))
      next.rows = view.history->rows + view.index / touch::kRowWords;
  }
  if (known && known->bytes) {
    if ((low - known->base) % 8 != 0) return;
    next.initialized = known->bytes->bits() + (low - known->base) / 8;
    next.initialized_mask = kAll;
  } else {
    static constexpr std::uint64_t kInitialized = kAll;
    next.initialized = reinterpret_cast<const std::byte*>(&kInitialized);
  }
  next.low = low;
  next.limit = end == kAll ? kAll : end - low + 1;
  range = next;
}

void LaneChecker::check_memory(Worker& worker, BlockContext& c, CheckRange* ranges,
                               const LaneAccess& access, std::uintptr_t pc) {
  // As in generated code.
  if (access.range < kCheckRanges && !access.addresses) {
    const auto last = static_cast<unsigned>(63 - std::countl_zero(access.lanes));
    const std::uint64_t a =
        access.address_of(static_cast<unsigned>(std::countr_zero(access.lanes)));
    const std::uint64_t b = access.address_of(last);
    const std::uint64_t first = std::min(a, b), span = std::max(a, b) - first + access.bytes;
    const CheckRange& range = ranges[access.range];
    const std::uint64_t low =
        access.variable_bytes == 0
            ? range.low
            : reinterpret_cast<std::uintptr_t>(c.shared) + access.variable_offset;
    const std::uint64_t limit =
        access.variable_bytes == 0 ? range.limit : access.variable_bytes + 1;
    if (limit > span && first - low < limit - span) return;
  }
  std::optional<std::uintptr_t> inside;  // an address in device memory
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    const std::uintptr_t address = access.address_of(lane);
    if (access.variable_bytes != 0) {
      const std::uint64_t from =
          address - reinterpret_cast<std::uintptr_t>(c.shared) - access.variable_offset;
      if (from < access.variable_bytes && access.bytes <= access.variable_bytes - from) continue;
    } else if (access.range < kCheckRanges) {
      const CheckRange& range = ranges[access.range];
      if (range.limit > access.bytes && address - range.low < range.limit - access.bytes) continue;
    }
    const Space space = space_of(worker, c, access, address);
    if (space == Space::local) continue;
    const auto found =
        access.variable_bytes != 0
            ? check_variable(address - reinterpret_cast<std::uintptr_t>(c.shared), access.bytes,
                             access.variable_offset, access.variable_bytes)
        : space == Space::shared
            ? check_shared(c, address - reinterpret_cast<std::uintptr_t>(c.shared), access.bytes)
            : check_global(c, address, access.bytes, access.root);
    if (!found) {
      if (space == Space::global) inside = address;
      continue;
    }
    char text[64];
    std::snprintf(text, sizeof text, "%u-byte %s ", access.bytes, verb_of(access.flags));
    report(worker, c, access, lane,
           {kMemory, 700, found->first, text + found->second, pc, address});
    if (worker.current_fault().code != 0) return;
  }
  if (!inside || access.range == 0 || access.range >= kCheckRanges) return;
  if (!hooks().find_allocation) {
    ranges[access.range] = {.low = 0, .limit = ~std::uint64_t{0}};
  } else if (const auto found = hooks().find_allocation(*inside);
             found && (access.root == 0 || access.root - found->base < found->size)) {
    ranges[access.range] = {.low = found->base, .limit = found->size + 1};
  }
}

void LaneChecker::warp(Worker& worker, BlockContext& c, std::uint32_t first_thread,
                       std::uint32_t missing, std::uint32_t mask, std::uintptr_t pc) {
  if (missing != 0 && checks(kSync)) {
    const auto lane = static_cast<unsigned>(std::countr_zero(missing));
    char text[160];
    std::snprintf(text, sizeof text,
                  "lane %u takes part in a warp operation whose mask 0x%08x does not name it", lane,
                  mask);
    LaneAccess access{};
    access.first_thread = first_thread;
    access.block_x = c.index[0];
    report(worker, c, access, lane, {kSync, 719, "wrong warp mask", text, pc, 0});
  }
  if (!checks(kRace)) return;
  std::uint16_t& steps = warp_steps_[first_thread / 32];
  if (steps < touch::kSteps) ++steps;
}

}  // namespace cucpu

// ---- routines that checked vector code calls ----

using namespace cucpu;

static std::uintptr_t pc_of(const void* return_address) {
  return reinterpret_cast<std::uintptr_t>(return_address) - 1;
}

/// The addresses of code with a mask are one per lane, also those of neighboring or equal elements.
static LaneAccess with_stride(const LaneAccess& access) {
  if (!access.addresses || !std::has_single_bit(access.bytes)) return access;
  const auto first = static_cast<unsigned>(std::countr_zero(access.lanes));
  const std::uint64_t rest = access.lanes & (access.lanes - 1);
  if (rest == 0) return access;
  const auto second = static_cast<unsigned>(std::countr_zero(rest));
  LaneAccess strided = access;
  strided.stride = access.addresses[first] == access.addresses[second] ? 0 : access.bytes;
  strided.address = access.addresses[first] - static_cast<std::uint64_t>(strided.stride) * first;
  strided.addresses = nullptr;
  for (std::uint64_t left = rest; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    if (strided.address_of(lane) != access.addresses[lane]) return access;
  }
  return strided;
}

static LaneChecker& lane_checker(Worker& worker) {
  return static_cast<LaneChecker&>(*worker.grid().observer());
}

extern "C" {

void cucpu_rt_check_lanes(BlockContext* context, CheckRange* ranges, const LaneAccess* access) {
  Worker& worker = *Worker::running();
  LaneChecker& checker = lane_checker(worker);
  const LaneAccess together = with_stride(*access);
  access = &together;
  if (access->range == 0 && (checker.access_shared_words(*context, ranges[0], *access) ||
                             checker.access_shared_word_of_each(*context, ranges[0], *access)))
    return;
  checker.access(worker, *context, ranges, *access, pc_of(__builtin_return_address(0)));
  if (worker.current_fault().code != 0) worker.abandon();
}

void cucpu_rt_check_lanes_fence(BlockContext*, std::uint32_t first_thread, std::uint64_t lanes) {
  lane_checker(*Worker::running()).fence(first_thread, lanes);
}

void cucpu_rt_check_lanes_warp(BlockContext* context, std::uint32_t first_thread,
                               std::uint32_t missing, std::uint32_t mask) {
  Worker& worker = *Worker::running();
  lane_checker(worker).warp(worker, *context, first_thread, missing, mask,
                            pc_of(__builtin_return_address(0)));
  if (worker.current_fault().code != 0) worker.abandon();
}

}  // extern "C"
