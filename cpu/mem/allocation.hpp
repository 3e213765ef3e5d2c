// cpu/mem/allocation.hpp: what is known about a piece of memory, found by any address inside it.
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

namespace cucpu::driver {

/// How much memory a device may hand out. One per device, never destroyed.
class Budget {
 public:
  std::size_t limit = 0;
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    std::uint64_t used = used_->load(std::memory_order_relaxed);
    do {
      if (bytes > limit || used > limit - bytes) return false;
    } while (!used_->compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give(std::size_t bytes) noexcept { used_->fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t used() const noexcept { return used_->load(std::memory_order_relaxed); }
  /// Counts in a place that others can see. Before the first use.
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
  std::uint64_t id = 0;          ///< unique in this process, never used again
  unsigned flags = 0;            ///< of cuMemHostAlloc, cuMemHostRegister or cuMemAllocManaged
  void* pool = nullptr;          ///< the MemPool it came from
  unsigned handle_types = 0;     ///< CUmemAllocationHandleType bits it can be exported as
  int shared_fd = -1;            ///< memfd behind it once it has been exported
  bool own_pages = false;        ///< no other allocation shares its pages, so they can be remapped
  std::atomic<bool> sync_memops{false};
  /// Read or written only with the map's lock held (managed memory calls are rare).
  ManagedRanges managed;
  /// Of mapped memory and graphs' memory: a bit per device that may read, and that may write. Read
  /// without the lock.
  std::atomic<std::uint64_t> readable_by{0}, writable_by{0};
  /// Undoes what made the memory; runs once, after the record left the map.
  std::function<void(Allocation&)> release;

  [[nodiscard]] std::uintptr_t end() const noexcept { return base + size; }
};
using AllocationRef = std::shared_ptr<Allocation>;

/// All memory the driver knows about. Thread-safe.
class MemoryMap {
 public:
  static MemoryMap& instance();

  void insert(const AllocationRef& allocation);
  /// As insert(); when that fails, the memory has been given back.
  void insert_new(const AllocationRef& allocation);

  /// The allocation that holds `address`, if any. An address one past the end is outside.
  [[nodiscard]] AllocationRef find(std::uintptr_t address) const;

  /// Takes out the allocation that begins at `base` (and, if given, satisfies `only`); the caller
  /// then calls drop().
  AllocationRef take_out(std::uintptr_t base,
                         const std::function<bool(const Allocation&)>& only = {});

  /// Takes out what was inserted a moment ago and nobody has seen; unlike take_out() it leaves no
  /// memory of it.
  void forget(std::uintptr_t base) noexcept;

  /// Takes out everything a context owns.
  void release_context(std::uint64_t context_id) noexcept;

  /// True when [address, address+bytes) lies inside one allocation, or outside all memory of ours
  /// (host memory).
  [[nodiscard]] bool covers(std::uintptr_t address, std::size_t bytes) const;

  bool name_devices = false;  ///< in describe(): where there are several
  /// A sentence for fault reports: the allocation at or nearest to the address. Works on freed
  /// memory too.
  [[nodiscard]] std::string describe(std::uintptr_t address) const;

  void with_lock(const std::function<void()>& f);
  void for_each(const std::function<void(const Allocation&)>& f) const;

  static void drop(const AllocationRef& allocation);

  /// Changes whenever memory comes or goes, or somebody's access to it changes (touch): what was
  /// looked up before may be wrong.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  void touch() noexcept { version_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::atomic<std::uint64_t> version_{1};
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, AllocationRef> by_base_;
  struct Freed {
    std::uintptr_t base;
    std::size_t size;
    std::uint64_t id;
  };
  std::map<std::uintptr_t, Freed> freed_;    // some of the newest, for reports
  std::vector<std::uintptr_t> freed_order_;  // their addresses in a ring, as they came
  std::size_t next_freed_ = 0;
  void remember_freed(const Allocation&) noexcept;
};

/// Memory that goes with its owner, also with one whose constructor fails half way.
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

/// Memory of a device (or of the host, when `budget` is null), in a piece of its own that ends at a
/// guard page while that is cheap, in shared chunks once there are very many. Aligned to 512 bytes
/// or more, zeroed. The record is not in the map yet. Throws std::bad_alloc when the budget or the
/// machine has no more.
AllocationRef allocate_memory(std::size_t size, std::size_t align, Budget* budget);

}  // namespace cucpu::driver
