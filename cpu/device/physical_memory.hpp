// cpu/device/physical_memory.hpp: memory without an address (cuMemCreate): a memfd, mapped where a
// program wants it.
#pragma once

#include <unistd.h>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

inline constexpr std::size_t kGranularity = std::size_t{2}
                                            << 20;  ///< of sizes and addresses of mappings

class PhysicalMemory final : public Handled<PhysicalMemory, void*, Kind::physical_memory> {
 public:
  PhysicalMemory(int fd, std::size_t size, const CUmemAllocationProp& prop, Budget* budget)
      : fd{fd}, size{size}, prop{prop}, budget_{budget} {}
  ~PhysicalMemory() override {
    abandon();
    close(fd);
    if (budget_) budget_->give(size);
  }
  /// Memory has one handle as long as it exists. It is handed out when it is made, and again for an
  /// address where it is mapped; a program gives it back as often. Whoever holds a Ref may call it.
  CUmemGenericAllocationHandle acquire_handle() {
    if (!handle()) publish_unowned();
    if (handle_uses_.fetch_add(1) == 0) retain();
    return reinterpret_cast<CUmemGenericAllocationHandle>(handle());
  }
  /// False when the program has no handle to give back.
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

 private:
  Budget* budget_;
  std::atomic<int> handle_uses_{0};
};

/// Fails with 1 where the program has no such handle, also when the memory is still mapped.
PhysicalMemory& memory_of(CUmemGenericAllocationHandle handle);

/// The memory mapped at an address, and where in it the address lies; fails with 1 when there is
/// none.
struct MappedPlace {
  Ref<PhysicalMemory> memory;
  std::size_t offset;
};
MappedPlace mapped_place(std::uintptr_t address, std::size_t bytes);

}  // namespace cucpu::driver
