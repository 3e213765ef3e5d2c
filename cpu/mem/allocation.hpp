// SPDX-License-Identifier: Apache-2.0
// cpu/mem/allocation.hpp: records of allocations, found by any address inside them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "cpu/mem/managed_ranges.hpp"
#include "cpu/trace/trace.hpp"

namespace cucpu::driver {

/// The memory limit of one device. Never destroyed.
class Budget {
 public:
  std::size_t limit = 0;
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    std::uint64_t used = used_->load(std::memory_order_relaxed);
    do {
      if (bytes > limit || used > limit - bytes) return false;
    } while (!used_->compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (trace::is_on()) [[unlikely]]
      trace::add_counter("device memory", used + bytes);
    return true;
  }
  void give(std::size_t bytes) noexcept {
    const std::uint64_t used = used_->fetch_sub(bytes, std::memory_order_relaxed);
    if (trace::is_on()) [[unlikely]]
      trace::add_counter("device memory", used - bytes);
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_->load(std::memory_order_relaxed); }
  /// Counts in a shared counter, which NVML reads. Call before the first use.
  void count_in(std::atomic<std::uint64_t>& place) noexcept { used_ = &place; }

 private:
  std::atomic<std::uint64_t> own_{0};
  std::atomic<std::uint64_t>* used_ = &own_;
};

enum class MemoryKind { device, host, registered, managed, pool, mapped, imported, variable };

struct Allocation {
  std::uintptr_t base = 0;
  std::size_t size = 0;
  MemoryKind kind = MemoryKind::device;
  int device = -1;               ///< ordinal; -1 when the memory belongs to the host
  std::uint64_t context_id = 0;  ///< 0 when no context owns it
  std::uint64_t id = 0;          ///< unique in this process, never reused
  unsigned flags = 0;         ///< flags of cuMemHostAlloc, cuMemHostRegister or cuMemAllocManaged
  void* pool = nullptr;       ///< the MemPool that owns it
  unsigned handle_types = 0;  ///< CUmemAllocationHandleType bits it can be exported as
  int shared_fd = -1;         ///< memfd with its pages once it has been exported
  bool own_pages = false;     ///< no other allocation shares its pages, so they can be remapped
  std::atomic<bool> sync_memops{false};
  /// Guarded by the lock of the map.
  ManagedRanges managed;
  /// Mapped memory and memory of graphs: a bit per device that may read, and that may write. Read
  /// without the lock.
  std::atomic<std::uint64_t> readable_by{0}, writable_by{0};
  /// Frees the memory. Runs once, after the record has left the map.
  std::function<void(Allocation&)> release;

  [[nodiscard]] std::uintptr_t end() const noexcept { return base + size; }
};
using AllocationRef = std::shared_ptr<Allocation>;

/// All allocations of the driver. Thread-safe.
class MemoryMap {
 public:
  static MemoryMap& instance();

  void insert(const AllocationRef& allocation);
  /// As insert(); frees the memory when that throws.
  void insert_new(const AllocationRef& allocation);

  /// The allocation that contains `address`, if any. An address one past the end is outside.
  [[nodiscard]] AllocationRef find(std::uintptr_t address) const;

  /// Removes the allocation that starts at `base` (and, if given, satisfies `only`); the caller
  /// then calls drop().
  AllocationRef remove(std::uintptr_t base,
                       const std::function<bool(const Allocation&)>& only = {});

  /// Removes a record inserted just now that no other thread has used; unlike remove(), it is not
  /// recorded as freed.
  void erase(std::uintptr_t base) noexcept;

  /// Removes all allocations of a context.
  void release_context(std::uint64_t context_id) noexcept;

  /// True when [address, address+bytes) lies inside one allocation, or outside of the device's
  /// address range (host memory).
  [[nodiscard]] bool covers(std::uintptr_t address, std::size_t bytes) const;

  bool name_devices = false;  ///< whether describe() names the device: set when there are several
  /// A sentence for fault reports: the allocation that contains the address or is nearest to it,
  /// live or freed.
  [[nodiscard]] std::string describe(std::uintptr_t address) const;

  void with_lock(const std::function<void()>& f);
  void for_each(const std::function<void(const Allocation&)>& f) const;

  static void drop(const AllocationRef& allocation);

  /// Changes with every allocation, free, and change of access rights (mark_changed()): cached
  /// results of earlier lookups are then invalid.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  void mark_changed() noexcept { version_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::atomic<std::uint64_t> version_{1};
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, AllocationRef> by_base_;
  struct Freed {
    std::uintptr_t base;
    std::size_t size;
    std::uint64_t id;
  };
  std::map<std::uintptr_t, Freed> freed_;    // the most recently freed, for reports
  std::vector<std::uintptr_t> freed_order_;  // their addresses in a ring buffer, oldest first
  std::size_t next_freed_ = 0;
  void record_freed(const Allocation&) noexcept;
};

/// Memory that the program has freed in stream order, and that queued work may still use. Only
/// check mode records it, and asks for it. Thread-safe.
class QueuedFrees {
 public:
  static QueuedFrees& instance();
  void add(const AllocationRef&);
  void remove(const AllocationRef&) noexcept;
  [[nodiscard]] AllocationRef find(std::uintptr_t address) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, AllocationRef> by_id_;
};

/// Owns memory: frees it in its destructor, also when the constructor of the enclosing object
/// throws.
class OwnedMemory {
 public:
  OwnedMemory() = default;
  explicit OwnedMemory(AllocationRef memory) noexcept : memory_{std::move(memory)} {}
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~OwnedMemory() { MemoryMap::drop(memory_); }
  Allocation* operator->() const noexcept { return memory_.get(); }
  [[nodiscard]] const AllocationRef& record() const noexcept { return memory_; }

 private:
  AllocationRef memory_;
};

/// Allocates zeroed memory of a device (of the host when `budget` is null), aligned to at least 512
/// bytes. An allocation ends at a guard page while that is cheap; very many small ones share
/// chunks. The record is not in the map yet. Throws std::bad_alloc at the limit of the device or of
/// the machine.
AllocationRef allocate_memory(std::size_t size, std::size_t align, Budget* budget);

}  // namespace cucpu::driver
