// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/try_access.hpp: accesses to memory that the program named and that may be unmapped
// by now (copies, fills, stream memory operations). A fault is a return value, not the end of the
// process.
#pragma once

#include <cstdint>
#include <type_traits>

namespace cucpu {

struct MemoryFault {
  std::uintptr_t address = 0;
  bool has_address = false;  ///< false for non-canonical addresses, which x86-64 does not report
};

/// Runs `work`; false if an access faulted, which `fault` then describes. The work is left at the
/// fault without running destructors: it must only read and write memory, take no lock and own
/// nothing.
bool try_access(void (*work)(const void*), const void* data, MemoryFault& fault) noexcept;

template <class Work>
bool try_access(const Work& work, MemoryFault& fault) noexcept {
  static_assert(std::is_trivially_destructible_v<Work>);
  return try_access([](const void* data) { (*static_cast<const Work*>(data))(); }, &work, fault);
}

/// For the signal handler: leaves the work that this thread runs. Returns if there is none.
void recover_from_access_fault(int signal, int signal_code, const void* address) noexcept;

}  // namespace cucpu
