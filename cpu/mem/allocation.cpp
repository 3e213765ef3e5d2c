// SPDX-License-Identifier: Apache-2.0
// The map of allocations, and the allocator of device memory.
#include "cpu/mem/allocation.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "cpu/mem/address_space.hpp"
#include "cpu/mem/host_stack.hpp"
#include "cpu/mem/immortal.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {

constexpr std::size_t kAlign = 512;
constexpr std::size_t kFreedKept = 1024;
// Linux allows about 65,000 mappings per process; an allocation with a guard page uses two.
constexpr std::size_t kGuardedMax = 16000;
constexpr std::size_t kChunk = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t align) {
  return (value + align - 1) & ~(align - 1);
}

std::atomic<std::size_t> g_guarded{0};
std::atomic<std::uint64_t> g_next_id{1};

/// Allocations without guard pages, for programs with tens of thousands of small ones: first fit in
/// chunks of 2 MiB.
class Chunks {
 public:
  static Chunks& instance() {
    static Chunks& chunks = *new Chunks;
    return chunks;
  }
  std::uintptr_t take(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    for (auto at = free_.begin(); at != free_.end(); ++at)
      if (at->second >= bytes) return carve(at, bytes);
    auto& space = AddressSpace::instance();
    const auto start = space.take(kChunk, kChunk);
    try {
      space.commit(start, kChunk);
    } catch (...) {
      space.give(start, kChunk);
      throw;
    }
    return carve(free_.emplace(start, kChunk).first, bytes);
  }
  void give(std::uintptr_t start, std::size_t bytes) {
    std::fill_n(reinterpret_cast<char*>(start), bytes, 0);  // new memory is zeroed
    const std::lock_guard lock{mutex_};
    auto next = free_.lower_bound(start);
    if (next != free_.end() && start + bytes == next->first && next->first % kChunk != 0) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && start % kChunk != 0)
      if (auto before = std::prev(next); before->first + before->second == start) {
        before->second += bytes;
        return;
      }
    free_.emplace(start, bytes);
  }

 private:
  std::uintptr_t carve(std::map<std::uintptr_t, std::size_t>::iterator at, std::size_t bytes) {
    const auto [start, size] = *at;
    free_.erase(at);
    if (size > bytes) free_.emplace(start + bytes, size - bytes);
    return start;
  }
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> free_;
};

}  // namespace

AllocationRef allocate_memory(std::size_t size, std::size_t align, Budget* budget) {
  if (size > (std::size_t{1} << 46)) throw std::bad_alloc{};
  align = std::max(align, kAlign);
  const std::size_t rounded = round_up(std::max<std::size_t>(size, 1), kAlign);
  auto record = std::make_shared<Allocation>();
  auto& space = AddressSpace::instance();
  if (budget && !budget->take(rounded) && CUCORE_PROTECTION("device-memory-limit"))
    throw std::bad_alloc{};
  record->size = size;
  record->id = g_next_id.fetch_add(1, std::memory_order_relaxed);
  std::uintptr_t start = 0;
  std::size_t taken = 0;
  try {
    if (rounded < kChunk / 8 && align <= kAlign &&
        g_guarded.load(std::memory_order_relaxed) >= kGuardedMax) {
      record->base = Chunks::instance().take(rounded);
      record->release = [budget, rounded](Allocation& a) {
        Chunks::instance().give(a.base, rounded);
        if (budget) budget->give(rounded);
      };
      return record;
    }
    const std::size_t pages =
        space.round_to_pages(round_up(rounded, std::min(align, space.page())));
    const std::size_t piece_align = std::max(align, pages >= kChunk ? kChunk : space.page());
    start = space.take(pages + space.page(), piece_align);
    taken = pages + space.page();
    space.commit(start, pages);
    // The end is as close to the guard page as the alignment allows.
    record->base = !CUCORE_PROTECTION("guard-page-after-allocation") || align > space.page()
                       ? start
                       : (start + pages - rounded) & ~static_cast<std::uintptr_t>(align - 1);
    record->own_pages = true;
    record->release = [budget, rounded, start, taken](Allocation&) {
      AddressSpace::instance().give(start, taken);
      g_guarded.fetch_sub(1, std::memory_order_relaxed);
      if (budget) budget->give(rounded);
    };
    g_guarded.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    if (taken != 0) space.give(start, taken);
    if (budget) budget->give(rounded);
    throw;
  }
  return record;
}

MemoryMap& MemoryMap::instance() { return Immortal<MemoryMap>::get(); }

void MemoryMap::insert(const AllocationRef& allocation) {
  if (allocation->id == 0) allocation->id = g_next_id.fetch_add(1, std::memory_order_relaxed);
  if (allocation_stacks::are_recorded()) [[unlikely]]
    allocation_stacks::record(allocation->id);
  const std::unique_lock lock{mutex_};
  by_base_[allocation->base] = allocation;
  mark_changed();
}

void MemoryMap::insert_new(const AllocationRef& allocation) {
  try {
    insert(allocation);
  } catch (...) {
    drop(allocation);
    throw;
  }
}

AllocationRef MemoryMap::find(std::uintptr_t address) const {
  const std::shared_lock lock{mutex_};
  auto at = by_base_.upper_bound(address);
  if (at == by_base_.begin()) return nullptr;
  --at;
  const Allocation& a = *at->second;
  if (address - a.base >= std::max<std::size_t>(a.size, 1)) return nullptr;
  return at->second;
}

AllocationRef MemoryMap::remove(std::uintptr_t base,
                                const std::function<bool(const Allocation&)>& only) {
  const std::unique_lock lock{mutex_};
  const auto at = by_base_.find(base);
  if (at == by_base_.end() || (only && !only(*at->second))) return nullptr;
  AllocationRef found = std::move(at->second);
  by_base_.erase(at);
  mark_changed();
  record_freed(*found);
  return found;
}

void MemoryMap::erase(std::uintptr_t base) noexcept {
  const std::unique_lock lock{mutex_};
  by_base_.erase(base);
  mark_changed();
}

void MemoryMap::release_context(std::uint64_t context_id) noexcept {
  std::map<std::uintptr_t, AllocationRef>
      removed;  // filled with extracted nodes: allocates nothing
  {
    const std::unique_lock lock{mutex_};
    for (auto at = by_base_.begin(); at != by_base_.end();) {
      const auto here = at++;
      if (here->second->context_id != context_id) continue;
      record_freed(*here->second);
      removed.insert(by_base_.extract(here));
    }
    mark_changed();
  }
  for (const auto& [base, allocation] : removed) drop(allocation);
}

bool MemoryMap::covers(std::uintptr_t address, std::size_t bytes) const {
  if (bytes == 0) return true;
  for (;;) {
    const AllocationRef a = find(address);
    if (!a) return !AddressSpace::instance().contains(address);
    const std::size_t here = a->end() - address;
    if (bytes <= here) return true;
    // Adjacent mappings in one reservation count as one range.
    if (a->kind != MemoryKind::mapped && a->kind != MemoryKind::registered) return false;
    address += here;
    bytes -= here;
  }
}

void MemoryMap::with_lock(const std::function<void()>& f) {
  const std::unique_lock lock{mutex_};
  f();
}

void MemoryMap::for_each(const std::function<void(const Allocation&)>& f) const {
  const std::shared_lock lock{mutex_};
  for (const auto& [base, a] : by_base_) f(*a);
}

void MemoryMap::drop(const AllocationRef& allocation) {
  if (!allocation || !allocation->release) return;
  auto release = std::exchange(allocation->release, nullptr);
  release(*allocation);
}

QueuedFrees& QueuedFrees::instance() {
  static auto* const frees = new QueuedFrees;
  return *frees;
}

void QueuedFrees::add(const AllocationRef& memory) {
  const std::unique_lock lock{mutex_};
  by_id_[memory->id] = memory;
}

void QueuedFrees::remove(const AllocationRef& memory) noexcept {
  const std::unique_lock lock{mutex_};
  by_id_.erase(memory->id);
}

AllocationRef QueuedFrees::find(std::uintptr_t address) const {
  const std::shared_lock lock{mutex_};
  for (const auto& [id, memory] : by_id_)
    if (address - memory->base < memory->size) return memory;
  return nullptr;
}

void MemoryMap::record_freed(const Allocation& a) noexcept try {
  const auto [at, is_new] = freed_.try_emplace(a.base);
  at->second = {a.base, a.size, a.id};
  if (!is_new) return;  // a pool returned the same address again
  if (freed_order_.size() < kFreedKept) {
    freed_order_.push_back(a.base);
    return;
  }
  freed_.erase(std::exchange(freed_order_[next_freed_], a.base));
  next_freed_ = (next_freed_ + 1) % kFreedKept;
} catch (const std::bad_alloc&) {  // a later report lacks this allocation
}

std::string MemoryMap::describe(std::uintptr_t address) const {
  static constexpr std::uintptr_t kNear = 1 << 20;
  const auto sentence = [this](const char* relation, std::uintptr_t bytes, const Allocation& a) {
    static constexpr const char* kKinds[] = {"device",   "pinned host",    "registered host",
                                             "managed",  "pool",           "mapped",
                                             "imported", "module variable"};
    char text[256];
    if (bytes == 0)
      std::snprintf(text, sizeof text, "%s the %zu-byte %s allocation at 0x%" PRIxPTR, relation,
                    a.size, kKinds[static_cast<int>(a.kind)], a.base);
    else
      std::snprintf(text, sizeof text,
                    "%" PRIuPTR " bytes %s the %zu-byte %s allocation at 0x%" PRIxPTR, bytes,
                    relation, a.size, kKinds[static_cast<int>(a.kind)], a.base);
    const bool named = name_devices && a.device >= 0;
    return std::string{text} + (named ? " of device " + std::to_string(a.device) : "");
  };
  const std::shared_lock lock{mutex_};
  const Allocation* before = nullptr;
  const Allocation* after = nullptr;
  const auto next = by_base_.upper_bound(address);
  if (next != by_base_.end()) after = next->second.get();
  if (next != by_base_.begin()) before = std::prev(next)->second.get();
  if (before && address < before->end()) return sentence("into", address - before->base, *before);
  auto freed = freed_.upper_bound(address);
  if (freed != freed_.begin()) {
    const Freed& f = std::prev(freed)->second;
    if (address - f.base < f.size) {
      char text[192];
      std::snprintf(text, sizeof text,
                    "inside a %zu-byte allocation at 0x%" PRIxPTR
                    " that has been freed (allocation number %" PRIu64 " of the process)",
                    f.size, f.base, f.id);
      return text;
    }
  }
  if (address < 65536) return "a null pointer or an offset from one";
  if (before && address - before->end() < kNear &&
      (!after || address - before->end() <= after->base - address))
    return sentence("past the end of", address - before->end(), *before);
  if (after && after->base - address < kNear)
    return sentence("before", after->base - address, *after);
  if (AddressSpace::instance().contains(address))
    return "device address space, but no allocation is near";
  return "no memory of this device is near; perhaps a host pointer";
}

}  // namespace cucpu::driver
