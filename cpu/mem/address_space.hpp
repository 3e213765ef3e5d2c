// SPDX-License-Identifier: Apache-2.0
// cpu/mem/address_space.hpp: the address range of all memory of the CPU devices. Reserved without
// memory; the owner of a part decides what is mapped there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace cucpu::driver {

class AddressSpace {
 public:
  static AddressSpace& instance();

  [[nodiscard]] bool contains(std::uintptr_t address) const noexcept {
    return address - base_ < bytes_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t page() const noexcept { return page_; }
  [[nodiscard]] std::size_t round_to_pages(std::size_t bytes) const noexcept {
    return (bytes + page_ - 1) & ~(page_ - 1);
  }

  /// Reserves an inaccessible part. `bytes` is a multiple of the page size, `align` a power of two.
  /// Throws std::bad_alloc. Released addresses are reused only when no unused ones are left, so
  /// that a use after free faults.
  std::uintptr_t take(std::size_t bytes, std::size_t align, std::uintptr_t wished = 0);

  /// Releases a part and unmaps all memory in it.
  void give(std::uintptr_t start, std::size_t bytes) noexcept;

  /// Maps zeroed private memory over a reserved part. Throws std::bad_alloc.
  void commit(std::uintptr_t start, std::size_t bytes);

  /// Unmaps memory of a reserved part: it becomes inaccessible.
  void decommit(std::uintptr_t start, std::size_t bytes) noexcept;

 private:
  AddressSpace();
  std::uintptr_t base_ = 0, next_ = 0;
  std::size_t bytes_ = 0, page_ = 4096;
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> free_;  // start -> bytes, neighbours merged
};

}  // namespace cucpu::driver
