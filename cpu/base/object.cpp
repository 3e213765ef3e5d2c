// SPDX-License-Identifier: Apache-2.0
// The region of handle slots.
#include "cpu/base/object.hpp"

#include <sys/mman.h>

#include <deque>
#include <mutex>

#include "cpu/mem/sanitizer.hpp"
#if defined(CUCPU_ASAN)
#include <sanitizer/lsan_interface.h>
#endif

namespace cucpu::driver::handles {

Slot* g_region = nullptr;

namespace {
struct FreeList {
  std::mutex mutex;
  std::deque<Slot*> slots;
  std::size_t used = 0;
};
FreeList& free_list() {
  static FreeList& list = *new FreeList;
  return list;
}
// A retired slot is reused only after this many others, so a stale handle stays invalid for a
// while.
constexpr std::size_t kReuseDistance = 4096;

/// Registers slots as roots: the leak checker does not scan mapped memory by itself, and objects
/// that only a handle refers to are not leaks.
void register_with_leak_checker([[maybe_unused]] const Slot* fresh) {
#if defined(CUCPU_ASAN)
  constexpr std::size_t kAtOnce = 1024;
  if (static_cast<std::size_t>(fresh - g_region) % kAtOnce == 0)
    __lsan_register_root_region(fresh, kAtOnce * sizeof(Slot));
#endif
}
}  // namespace

void reserve() {
  if (g_region) return;
  void* p = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    fail(CUDA_ERROR_OPERATING_SYSTEM, "cannot reserve address space for handles");
  g_region = static_cast<Slot*>(p);  // zero pages read as Kind::none
}

Slot* publish(Object* object, Kind kind) {
  FreeList& list = free_list();
  Slot* slot;
  {
    const std::lock_guard lock{list.mutex};
    if (list.slots.size() > kReuseDistance) {
      slot = list.slots.front();
      list.slots.pop_front();
    } else {
      if (list.used == kRegionBytes / sizeof(Slot)) fail(CUDA_ERROR_OUT_OF_MEMORY);
      slot = g_region + list.used++;
      register_with_leak_checker(slot);
    }
  }
  object->retain();
  slot->object.store(object, std::memory_order_relaxed);
  slot->kind.store(kind, std::memory_order_release);
  return slot;
}

void abandon(Slot* slot) noexcept {
  slot->kind.store(Kind::none, std::memory_order_release);
  slot->object.store(nullptr, std::memory_order_relaxed);
  FreeList& list = free_list();
  const std::lock_guard lock{list.mutex};
  try {
    list.slots.push_back(slot);
  } catch (...) {  // the slot is not reused; nothing else is lost
  }
}

bool retire(Slot* slot, Kind kind) noexcept {
  if (!slot->kind.compare_exchange_strong(kind, Kind::none, std::memory_order_acq_rel))
    return false;
  Object* object = slot->object.exchange(nullptr, std::memory_order_acq_rel);
  {
    FreeList& list = free_list();
    const std::lock_guard lock{list.mutex};
    try {
      list.slots.push_back(slot);
    } catch (...) {  // the slot is not reused; nothing else is lost
    }
  }
  object->release();
  return true;
}

}  // namespace cucpu::driver::handles
