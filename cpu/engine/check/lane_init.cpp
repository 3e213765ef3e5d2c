// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_init.cpp: reads of uninitialized memory by lane groups.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "cpu/engine/check/lane_checker.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

const LaneChecker::Tracked& LaneChecker::tracked(std::uint32_t range, std::uintptr_t address) {
  Tracked& known = tracked_[range];
  if (address - known.base < known.size) return known;
  known = {};
  if (const auto found = find_memory(address)) {
    known.base = found->base;
    known.size = found->size;
    known.is_array = found->is_array;
    if (found->tracked && checks(kInit)) known.bytes = &initialized_bytes(*found);
  }
  return known;
}

/// The usual case: all lanes access neighboring memory that is initialized, or they initialize it.
bool LaneChecker::check_init_together(const BlockContext& c, const LaneAccess& access) {
  const auto bytes = static_cast<std::int64_t>(access.bytes);
  if (access.addresses || std::abs(access.stride) > bytes) return false;
  const auto first = static_cast<unsigned>(std::countr_zero(access.lanes));
  const auto last = static_cast<unsigned>(63 - std::countl_zero(access.lanes));
  const std::uint64_t a = access.address_of(first), b = access.address_of(last);
  const std::uint64_t low = std::min(a, b), span = std::max(a, b) - low + access.bytes;
  InitializedBytes* initialized = nullptr;
  std::size_t offset = 0;
  if (access.range == 0) {
    offset = low - reinterpret_cast<std::uintptr_t>(c.shared);
    if (offset + span > shared_end(c)) return false;
    initialized = shared_bytes_.get();
  } else {
    if ((access.flags & kGlobalSpace) == 0) return false;
    const Tracked& known = tracked(access.range, low);
    offset = low - known.base;
    if (offset >= known.size || offset + span > known.size) return false;
    if (!known.bytes) return true;
    initialized = known.bytes;
  }
  if (initialized->all(offset, span)) return true;
  const bool dense = std::popcount(access.lanes) == static_cast<int>(last - first + 1) &&
                     std::abs(access.stride) == bytes;
  if ((access.flags & kRead) != 0 || !(dense || access.stride == 0)) return false;
  initialized->set(offset, span);
  return true;
}

void LaneChecker::check_init(Worker& worker, BlockContext& c, const LaneAccess& access,
                             std::uintptr_t pc) {
  if (check_init_together(c, access)) return;
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  for (std::uint64_t left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    const std::uintptr_t address = access.address_of(lane);
    const Space space = space_of(worker, c, access, address);
    InitializedBytes* initialized = nullptr;
    std::size_t offset = 0;
    const char* what = "device memory";
    if ((access.flags & kImage) != 0 && is_outside_surface(address)) continue;
    if (space == Space::shared) {
      what = "shared memory";
      offset = address - reinterpret_cast<std::uintptr_t>(c.shared);
      // The memory after the block's bytes is reserved for the system and initialized.
      if (offset < shared_end(c)) initialized = shared_bytes_.get();
    } else if (space == Space::global) {
      const Tracked& known = tracked(access.range, address);
      initialized = known.bytes;
      offset = address - known.base;
      if (known.is_array) what = "memory of an array";
    }
    if (!initialized || initialized->all(offset, access.bytes)) continue;
    const bool finds = reads && (space == Space::shared ? initialized->none(offset, access.bytes)
                                                        : is_uninitialized(*initialized, address,
                                                                           offset, access.bytes));
    if (finds) {
      char text[96];
      std::snprintf(text, sizeof text, "%u-byte %s of uninitialized %s", access.bytes,
                    read_verb_of(access.flags), what);
      report(worker, c, access, lane, {kInit, 719, "uninitialized read", text, pc, address});
      if (worker.current_fault().code != 0) return;
    }
    if (writes) initialized->set(offset, access.bytes);
  }
}

}  // namespace cucpu
