// The region of handle slots.
#include "cpu/base/object.hpp"

#include <sys/mman.h>

#include <deque>
#include <mutex>

#include "cpu/base/sanitizer.hpp"
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
// A retired slot rests behind this many others, so that a stale handle stays recognisable for a
// while.
constexpr std::size_t kRest = 4096;

/// Objects that only a handle refers to are not leaked; the checker does not look into mapped
/// memory by itself.
void tell_leak_checker([[maybe_unused]] const Slot* fresh) {
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
    if (list.slots.size() > kRest) {
      slot = list.slots.front();
      list.slots.pop_front();
    } else {
      if (list.used == kRegionBytes / sizeof(Slot)) fail(CUDA_ERROR_OUT_OF_MEMORY);
      slot = g_region + list.used++;
      tell_leak_checker(slot);
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
  } catch (...) {  // the slot is lost, nothing else
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
    } catch (...) {  // the slot is lost, nothing else
    }
  }
  object->release();
  return true;
}

}  // namespace cucpu::driver::handles
