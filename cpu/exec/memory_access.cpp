// SPDX-License-Identifier: Apache-2.0
// Fault reports of queued work.
#include "cpu/exec/memory_access.hpp"

#include <cstdio>

#include "cpu/mem/address_space.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

void fail_access(const MemoryFault& fault, std::string work) {
  IllegalAddress error{{CUDA_ERROR_ILLEGAL_ADDRESS}, std::move(work)};
  error.report += ": illegal memory access";
  if (fault.has_address) {
    char at[32];
    std::snprintf(at, sizeof at, " at 0x%llx", static_cast<unsigned long long>(fault.address));
    const MemoryMap& map = MemoryMap::instance();
    const bool ours = AddressSpace::instance().contains(fault.address) ||
                      map.find(fault.address) != nullptr || fault.address < 65536;
    error.report += at;
    error.report += "; ";
    error.report += ours ? map.describe(fault.address)
                         : "unmapped or protected host memory; keep host memory valid until the "
                           "stream has completed the work that uses it";
  }
  throw error;
}

}  // namespace cucpu::driver
