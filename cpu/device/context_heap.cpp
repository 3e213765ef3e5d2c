// SPDX-License-Identifier: Apache-2.0
// The heap of kernels: the host's allocator with a limit.
#include "cpu/device/context_heap.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace cucpu::driver {

std::uint64_t ContextHeap::allocate(std::size_t bytes) noexcept {
  in_use_.store(true, std::memory_order_relaxed);
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  const std::lock_guard lock{mutex_};
  if (bytes == 0 || bytes > limit || used_ > limit - bytes) return 0;
  if (!budget_.take(bytes)) return 0;
  void* memory = std::aligned_alloc(16, (bytes + 15) / 16 * 16);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  try {
    if (memory) live_.emplace(address, bytes);
  } catch (...) {
    std::free(memory);
    memory = nullptr;
  }
  if (!memory) {
    budget_.give(bytes);
    return 0;
  }
  used_ += bytes;
  low_ = std::min(low_, address);
  high_ = std::max(high_, address);
  return address;
}

bool ContextHeap::free(std::uint64_t address) noexcept {
  const std::lock_guard lock{mutex_};
  const auto at = live_.find(address);
  if (at == live_.end()) return false;
  used_ -= at->second;
  budget_.give(at->second);
  live_.erase(at);
  std::free(reinterpret_cast<void*>(address));
  return true;
}

bool ContextHeap::holds(std::uint64_t address) const noexcept {
  const std::lock_guard lock{mutex_};
  const auto next = live_.upper_bound(address);
  return next != live_.begin() && address - std::prev(next)->first < std::prev(next)->second;
}

bool ContextHeap::reaches(std::uint64_t address) const noexcept {
  const std::lock_guard lock{mutex_};
  return address >= low_ && address <= high_;
}

void ContextHeap::clear() noexcept {
  const std::lock_guard lock{mutex_};
  for (const auto& [address, bytes] : live_) {
    std::free(reinterpret_cast<void*>(address));
    budget_.give(bytes);
  }
  live_.clear();
  used_ = 0;
  in_use_.store(false, std::memory_order_relaxed);
}

}  // namespace cucpu::driver
