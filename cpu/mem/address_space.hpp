// cpu/mem/address_space.hpp: the one range of addresses that all memory of the CPU devices comes
// from. Reserved without memory behind it; whoever takes a piece decides what is mapped there.
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

  /// A piece nobody else has; inaccessible. `bytes` is a multiple of the page, `align` a power of
  /// two. Throws std::bad_alloc. Addresses given back are used again only once fresh ones run out,
  /// so that a stray access to freed memory is seen.
  std::uintptr_t take(std::size_t bytes, std::size_t align, std::uintptr_t wished = 0);

  /// Gives a piece back; whatever was mapped there is gone when this returns.
  void give(std::uintptr_t start, std::size_t bytes) noexcept;

  /// Maps zeroed private memory over a piece that was taken. Throws std::bad_alloc.
  void commit(std::uintptr_t start, std::size_t bytes);

  /// Makes a part of a taken piece inaccessible and empty.
  void decommit(std::uintptr_t start, std::size_t bytes) noexcept;

 private:
  AddressSpace();
  std::uintptr_t base_ = 0, next_ = 0;
  std::size_t bytes_ = 0, page_ = 4096;
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> free_;  // start -> bytes, neighbours merged
};

}  // namespace cucpu::driver
