// cpu/engine/runtime/heap.cpp: malloc and free inside kernels, from a heap with a limit.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/routines.hpp"

namespace cucpu {
namespace {

struct Heap {
  std::mutex mutex;
  std::size_t limit = std::size_t{8} << 20;
  std::size_t used = 0;
  std::map<std::uint64_t, std::size_t> live;
  std::uint64_t low = ~std::uint64_t{0}, high = 0;  ///< between them lies all it ever gave
};

constexpr std::uint64_t kLowest = 4096;  // nothing is ever lower

Heap& heap() {
  static auto* const heap = new Heap;  // kernels may outlive static destruction
  return *heap;
}

}  // namespace

void set_device_heap_limit(std::size_t bytes) {
  const std::lock_guard lock{heap().mutex};
  heap().limit = bytes;
}

std::size_t device_heap_limit() {
  const std::lock_guard lock{heap().mutex};
  return heap().limit;
}

void reset_device_heap() {
  const std::lock_guard lock{heap().mutex};
  for (const auto& [address, size] : heap().live) std::free(reinterpret_cast<void*>(address));
  heap().live.clear();
  heap().used = 0;
}

}  // namespace cucpu

using namespace cucpu;

std::uint64_t cucpu_rt_malloc(std::uint64_t size) {
  Heap& h = heap();
  const std::lock_guard lock{h.mutex};
  if (size == 0 || size > h.limit || h.used + size > h.limit) return 0;
  void* memory = std::aligned_alloc(16, (size + 15) / 16 * 16);
  if (!memory) return 0;
  try {
    h.live.emplace(reinterpret_cast<std::uint64_t>(memory), size);
  } catch (...) {
    std::free(memory);
    return 0;
  }
  h.used += size;
  h.low = std::min(h.low, reinterpret_cast<std::uint64_t>(memory));
  h.high = std::max(h.high, reinterpret_cast<std::uint64_t>(memory));
  g_device_heap_contains = [](std::uintptr_t address) {
    Heap& all = heap();
    const std::lock_guard guard{all.mutex};
    auto at = all.live.upper_bound(address);
    return at != all.live.begin() && (--at, address - at->first < at->second);
  };
  return reinterpret_cast<std::uint64_t>(memory);
}

void cucpu_rt_free(std::uint64_t address) {
  if (address == 0) return;
  bool known = false, ours = false;
  {
    Heap& h = heap();
    const std::lock_guard lock{h.mutex};
    ours = address >= h.low && address <= h.high;
    if (const auto it = h.live.find(address); it != h.live.end()) {
      known = true;
      h.used -= it->second;
      h.live.erase(it);
      std::free(reinterpret_cast<void*>(address));
    }
  }
  if (!known) {
    Worker& worker = *Worker::running();
    worker.current_fault().text = "free of an address that malloc did not give, or twice";
    worker.current_fault().address = address;
    worker.current_fault().has_address = true;
    // The H200 looks for the heap's notes in front of the address, and faults where it cannot read
    // them.
    ours = ours || (hooks().find_allocation && hooks().find_allocation(address));
    cucpu_rt_trap(address >= kLowest && address % 8 != 0 ? 716 : ours ? 719 : 700);
  }
}
