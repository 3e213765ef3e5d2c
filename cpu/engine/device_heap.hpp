// cpu/engine/device_heap.hpp: malloc and free inside kernels. The driver layer has a heap for each
// context; kernels ask for theirs on the thread that runs them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cucpu {

class DeviceHeap {
 public:
  /// 0 when there is no room.
  virtual std::uint64_t allocate(std::size_t bytes) noexcept = 0;
  /// False for an address that it did not give, or has back.
  virtual bool free(std::uint64_t address) noexcept = 0;
  /// Whether the address lies in memory it gave and does not have back.
  [[nodiscard]] virtual bool holds(std::uint64_t address) const noexcept = 0;
  /// Whether it ever gave an address at or below this one, and one at or above it.
  [[nodiscard]] virtual bool reaches(std::uint64_t address) const noexcept = 0;

 protected:
  ~DeviceHeap() = default;
};

/// Gives the heap of the running kernel's context. Set once, before the first launch; without it
/// malloc finds no room.
inline DeviceHeap* (*&heap_of_kernel())() noexcept {
  static DeviceHeap* (*function)() noexcept = nullptr;
  return function;
}

}  // namespace cucpu
