// SPDX-License-Identifier: Apache-2.0
// Mappings of physical memory.
#include "cpu/device/virtual_memory.hpp"

#include <sys/mman.h>

#include <iterator>

#include "cpu/device/memory.hpp"
#include "cpu/mem/immortal.hpp"

namespace cucpu::driver {

VirtualMemory& virtual_memory() { return Immortal<VirtualMemory>::get(); }

std::vector<std::map<std::uintptr_t, Mapping>::iterator> mappings(VirtualMemory& s,
                                                                  std::uintptr_t address,
                                                                  std::size_t bytes) {
  std::vector<std::map<std::uintptr_t, Mapping>::iterator> found;
  const std::uintptr_t end = address + bytes;
  while (address < end) {
    const auto at = s.mapped.find(address);
    require(at != s.mapped.end() && at->second.size <= end - address);
    found.push_back(at);
    address += at->second.size;
  }
  require(!found.empty());
  return found;
}

void protect(std::uintptr_t base, const Mapping& mapping) {
  int protection = PROT_NONE;
  for (const auto& [place, flags] : mapping.access) {
    if (flags & CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_WRITE;
  }
  if (mapping.multicast) return mapping.multicast->protect(base, protection);
  require(mprotect(reinterpret_cast<void*>(base), mapping.size, protection) == 0,
          CUDA_ERROR_OPERATING_SYSTEM);
}

void require_mapped_access(CUdeviceptr address, std::size_t bytes, bool write) {
  if (bytes == 0 || !virtual_memory().any_mapped.load(std::memory_order_relaxed)) return;
  VirtualMemory& s = virtual_memory();
  const std::lock_guard lock{s.mutex};
  auto at = s.mapped.upper_bound(address);
  if (at != s.mapped.begin() && std::prev(at)->first + std::prev(at)->second.size > address) --at;
  for (; at != s.mapped.end() && at->first < address + bytes; ++at) {
    bool allowed = false;
    for (const auto& [place, flags] : at->second.access)
      allowed |= flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
                 (!write && flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    require(allowed);
  }
}

PhysicalMemory& memory_of(CUmemGenericAllocationHandle handle) {
  auto& memory =
      object_of<PhysicalMemory>(reinterpret_cast<const void*>(handle), CUDA_ERROR_INVALID_VALUE);
  require(memory.has_handle());
  return memory;
}

MappedPlace mapped_place(std::uintptr_t address, std::size_t bytes) {
  VirtualMemory& s = virtual_memory();
  const std::lock_guard lock{s.mutex};
  auto at = s.mapped.upper_bound(address);
  require(at != s.mapped.begin());
  --at;
  const std::size_t offset = address - at->first;
  require(at->second.memory && offset < at->second.size && bytes <= at->second.size - offset);
  return {at->second.memory, offset};
}

}  // namespace cucpu::driver
