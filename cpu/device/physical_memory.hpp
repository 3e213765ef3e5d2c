// SPDX-License-Identifier: Apache-2.0
// cpu/device/physical_memory.hpp: memory without an address (cuMemCreate): a memfd that the program
// maps.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

inline constexpr std::size_t kGranularity =
    std::size_t{2} << 20;  ///< granularity of sizes and addresses of mappings

class PhysicalMemory final : public Handled<PhysicalMemory, void*, Kind::physical_memory> {
 public:
  PhysicalMemory(int fd, std::size_t size, const CUmemAllocationProp& prop, Budget* budget)
      : fd{fd}, size{size}, prop{prop}, budget_{budget} {}
  ~PhysicalMemory() override {
    abandon();
    close(fd);
    if (budget_) budget_->give(size);
  }
  /// The memory has one handle with a use count. cuMemCreate acquires it, and so does
  /// cuMemRetainAllocationHandle for a mapped address; each use is released once. The caller holds
  /// a Ref.
  CUmemGenericAllocationHandle acquire_handle() {
    if (!handle()) publish_unowned();
    if (handle_uses_.fetch_add(1) == 0) retain();
    return reinterpret_cast<CUmemGenericAllocationHandle>(handle());
  }
  /// False when the program holds no use of the handle.
  bool release_handle() noexcept {
    int count = handle_uses_.load();
    do {
      if (count == 0) return false;
    } while (!handle_uses_.compare_exchange_weak(count, count - 1));
    if (count == 1) release();
    return true;
  }
  [[nodiscard]] bool has_handle() const noexcept { return handle_uses_.load() > 0; }
  const int fd;
  const std::size_t size;
  const CUmemAllocationProp prop;
  /// Init checks: the addresses at which tiles of this memory (by offset) were last mapped into
  /// arrays. Memory that has been mapped before counts as initialized.
  struct {
    std::mutex mutex;
    std::map<std::size_t, std::uintptr_t> at;
    bool is_shared = false;  ///< also mapped outside of arrays
  } tiles;

 private:
  Budget* budget_;
  std::atomic<int> handle_uses_{0};
};

/// The memory of a handle. Fails with 1 when the program holds no use of it, even while it is
/// mapped.
PhysicalMemory& memory_of(CUmemGenericAllocationHandle handle);

/// The memory mapped at an address, and the offset of the address in it. Fails with 1 when there is
/// none.
struct MappedPlace {
  Ref<PhysicalMemory> memory;
  std::size_t offset;
};
MappedPlace mapped_place(std::uintptr_t address, std::size_t bytes);

}  // namespace cucpu::driver
