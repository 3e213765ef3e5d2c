// cpu/api/physical_memory.hpp: memory without an address (cuMemCreate): a memfd, mapped where a
// program wants it.
#pragma once

#include <unistd.h>

#include "api/context.hpp"

namespace cucpu::driver {

inline constexpr std::size_t kGranularity = std::size_t{2}
                                            << 20;  ///< of sizes and addresses of mappings

class PhysicalMemory final : public Handled<PhysicalMemory, void*, Kind::physical_memory> {
 public:
  PhysicalMemory(int fd, std::size_t size, const CUmemAllocationProp& prop, Budget* budget)
      : fd{fd}, size{size}, prop{prop}, budget_{budget} {}
  ~PhysicalMemory() override {
    close(fd);
    if (budget_) budget_->give(size);
  }
  CUmemGenericAllocationHandle publish_number() {
    return reinterpret_cast<CUmemGenericAllocationHandle>(publish());
  }
  const int fd;
  const std::size_t size;
  const CUmemAllocationProp prop;

 private:
  Budget* budget_;
};

PhysicalMemory& memory_of(CUmemGenericAllocationHandle handle);

/// The memory mapped at an address, and where in it the address lies; fails with 1 when there is
/// none.
struct MappedPlace {
  Ref<PhysicalMemory> memory;
  std::size_t offset;
};
MappedPlace mapped_place(std::uintptr_t address, std::size_t bytes);

}  // namespace cucpu::driver
