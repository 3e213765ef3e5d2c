// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/init.cpp: reads of uninitialized memory.
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

namespace {

/// By allocation, added at its first access; allocation numbers are unique.
struct Written {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::vector<bool>> bytes;
  std::atomic<bool> used{false};

  static Written& get() {
    static auto* const written = new Written;
    return *written;
  }
  std::vector<bool>& of(const AllocationView& a) {
    used.store(true, std::memory_order_relaxed);
    std::vector<bool>& found = bytes[a.id];
    if (found.size() < a.size) found.resize(a.size);
    return found;
  }
};

bool none(const std::vector<bool>& bits, std::size_t offset, std::size_t bytes) {
  const std::size_t end = std::min(offset + bytes, bits.size());
  for (std::size_t i = offset; i < end; ++i)
    if (bits[i]) return false;
  return offset < end;
}

void set(std::vector<bool>& bits, std::size_t offset, std::size_t bytes) {
  const std::size_t end = std::min(offset + bytes, bits.size());
  if (offset < end)
    std::fill(bits.begin() + static_cast<std::ptrdiff_t>(offset),
              bits.begin() + static_cast<std::ptrdiff_t>(end), true);
}

}  // namespace

bool is_unwritten(const AllocationView& a, std::uintptr_t address, std::size_t bytes) {
  Written& w = Written::get();
  const std::lock_guard lock{w.mutex};
  return none(w.of(a), address - a.base, bytes);
}

void mark_written(const AllocationView& a, std::uintptr_t address, std::size_t bytes) {
  Written& w = Written::get();
  const std::lock_guard lock{w.mutex};
  set(w.of(a), address - a.base, bytes);
}

void check_host_write(std::uintptr_t address, std::size_t bytes) noexcept try {
  if ((kinds_in_environment() & kInit) == 0 || !hooks().find_allocation) return;
  const auto found = hooks().find_allocation(address);
  if (found && found->tracked) mark_written(*found, address, bytes);
} catch (...) {
}  // without memory for its state a check misses findings

// A read is a finding only when none of its bytes is initialized: copies of structures read padding
// too.
void Checker::check_init(Worker& worker, const CheckedAccess& access, const Where& where) {
  const auto tell = [&](const char* what) {
    char text[96];
    std::snprintf(text, sizeof text, "%u-byte read of uninitialized %s", access.bytes, what);
    report(worker, kInit, 719, "uninitialized read", text, access.pc, access.address);
  };
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  if (where.kind == Where::kShared) {
    // The memory after the block's bytes is reserved for the system and initialized.
    if (!where.owner || where.offset >= where.size) return;
    if (reads && none(where.owner->written, where.offset, access.bytes)) tell("shared memory");
    if (writes) set(where.owner->written, where.offset, access.bytes);
    return;
  }
  if (where.kind == Where::kLocal) {
    auto at = locals_.upper_bound(access.address);
    if (at == locals_.begin()) return;
    --at;
    const std::size_t offset = access.address - at->first;
    if (reads && none(at->second.written, offset, access.bytes)) tell("local memory");
    if (writes) set(at->second.written, offset, access.bytes);
    return;
  }
  if (!hooks().find_allocation) return;
  const auto found = hooks().find_allocation(access.address);
  if (!found || !found->tracked) return;
  if (reads && is_unwritten(*found, access.address, access.bytes)) tell("device memory");
  if (writes) mark_written(*found, access.address, access.bytes);
}

void Checker::writes(Worker& worker, std::uintptr_t address, std::size_t bytes) {
  if (!checks(kInit)) return;
  if (bytes == 0) {  // a routine with its own pattern of writes to shared memory
    std::vector<bool>& written = of(*worker.current().block).written;
    return set(written, 0, written.size());
  }
  const Where where = locate(worker, address, 0);
  if (where.kind == Where::kShared && where.owner)
    return set(where.owner->written, where.offset, bytes);
  if (where.kind == Where::kGlobal) check_host_write(address, bytes);
}

}  // namespace cucpu
