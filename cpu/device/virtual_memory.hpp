// SPDX-License-Identifier: Apache-2.0
// cpu/device/virtual_memory.hpp: reserved address ranges, and the physical memory or multicast
// objects mapped into them (cuMemAddressReserve, cuMemMap).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "cpu/device/multicast.hpp"
#include "cpu/device/physical_memory.hpp"

namespace cucpu::driver {

struct Mapping {
  std::size_t size;
  Ref<PhysicalMemory> memory;  // null: a multicast object
  Ref<MulticastObject> multicast;
  std::map<int, CUmemAccess_flags> access;  // by device; -1: the host
};

struct VirtualMemory {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> reserved;
  std::map<std::uintptr_t, Mapping> mapped;
  std::atomic<bool> any_mapped{false};  ///< false: no lookup is needed
};
VirtualMemory& virtual_memory();

/// The mappings that cover [address, address + bytes) exactly. Fails with 1. Call with the lock
/// held.
std::vector<std::map<std::uintptr_t, Mapping>::iterator> mappings(VirtualMemory& s,
                                                                  std::uintptr_t address,
                                                                  std::size_t bytes);

/// Sets the union of the access rights of all locations as page protection. Call with the lock
/// held.
void protect(std::uintptr_t base, const Mapping& mapping);

}  // namespace cucpu::driver
