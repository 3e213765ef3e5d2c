// cpu/engine/run/try_access.hpp: reads and writes of memory that a program named and that may be
// gone by now (copies, fills, stream memory operations): a fault in them is an answer, not the end
// of the process.
#pragma once

#include <cstdint>
#include <type_traits>

namespace cucpu {

struct MemoryFault {
  std::uintptr_t address = 0;
  bool has_address = false;  ///< the processor does not name an address that no memory can have
};

/// Runs `work`; false when it ran into memory that is not there or may not be used so, which
/// `fault` then tells. Work is left where that happens, without its destructors: it reads and
/// writes, takes no lock and owns nothing.
bool try_access(void (*work)(const void*), const void* data, MemoryFault& fault) noexcept;

template <class Work>
bool try_access(const Work& work, MemoryFault& fault) noexcept {
  static_assert(std::is_trivially_destructible_v<Work>);
  return try_access([](const void* data) { (*static_cast<const Work*>(data))(); }, &work, fault);
}

/// For the signal handler: leaves the work when this thread is in any.
void recover_from_access_fault(int signal, int signal_code, const void* address) noexcept;

}  // namespace cucpu
