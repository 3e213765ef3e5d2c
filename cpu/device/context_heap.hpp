// SPDX-License-Identifier: Apache-2.0
// cpu/device/context_heap.hpp: malloc and free inside kernels: a heap for each context, bounded by
// CU_LIMIT_MALLOC_HEAP_SIZE and by the device's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "cpu/engine/device_heap.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

class ContextHeap final : public cucpu::DeviceHeap {
 public:
  ContextHeap(Budget& budget, const std::atomic<std::size_t>& limit) noexcept
      : budget_{budget}, limit_{limit} {}
  ~ContextHeap() { clear(); }
  ContextHeap(const ContextHeap&) = delete;
  ContextHeap& operator=(const ContextHeap&) = delete;

  std::uint64_t allocate(std::size_t bytes) noexcept override;
  bool free(std::uint64_t address) noexcept override;
  [[nodiscard]] bool holds(std::uint64_t address) const noexcept override;
  [[nodiscard]] bool reaches(std::uint64_t address) const noexcept override;

  /// True once a kernel has allocated: the limit cannot change then.
  [[nodiscard]] bool is_in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
  /// Frees all memory. Call only while no kernel runs.
  void clear() noexcept;

 private:
  Budget& budget_;
  const std::atomic<std::size_t>& limit_;
  std::atomic<bool> in_use_{false};
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::uint64_t, std::size_t> live_;
  std::uint64_t low_ = ~std::uint64_t{0}, high_ = 0;
};

}  // namespace cucpu::driver
