// SPDX-License-Identifier: Apache-2.0
// cpu/engine/device_heap.hpp: malloc and free in kernels. The driver layer has a heap for each
// context; kernels use that of their context on the thread that runs them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cucpu {

class DeviceHeap {
 public:
  /// Returns 0 when the heap is exhausted.
  virtual std::uint64_t allocate(std::size_t bytes) noexcept = 0;
  /// Returns false for an address that is not allocated.
  virtual bool free(std::uint64_t address) noexcept = 0;
  /// Whether the address is in an allocated block.
  [[nodiscard]] virtual bool holds(std::uint64_t address) const noexcept = 0;
  /// Whether the address is between the lowest and the highest address that was ever allocated.
  [[nodiscard]] virtual bool reaches(std::uint64_t address) const noexcept = 0;

 protected:
  ~DeviceHeap() = default;
};

/// A function that returns the heap of the running kernel's context. Set once, before the first
/// launch; without it malloc returns null.
inline DeviceHeap* (*&heap_of_kernel())() noexcept {
  static DeviceHeap* (*function)() noexcept = nullptr;
  return function;
}

}  // namespace cucpu
