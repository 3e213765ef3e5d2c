// cpu/engine/run/peer_access.hpp: what routines of the runtime ask before they touch memory that
// may be another device's.
#pragma once

#include <cstdint>

extern "C" void cucpu_rt_check_peer_access(std::uint64_t address, std::uint32_t write);

namespace cucpu {

/// Ends the thread with 700 where the running kernel may not touch an array of `home` (what the
/// driver layer calls its owner), or, without one, memory at the address.
void require_peer_access(const void* home, std::uintptr_t address, bool write);

}  // namespace cucpu
