// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/peer_access.hpp: the check of runtime routines before they access memory that may
// belong to another device.
#pragma once

#include <cstdint>

extern "C" void cucpu_rt_check_peer_access(std::uint64_t address, std::uint32_t write);

namespace cucpu {

/// Ends the thread with 700 if the running kernel has no access to the array's owner `home` (a
/// handle of the driver layer) or, if that is null, to the memory at the address.
void require_peer_access(const void* home, std::uintptr_t address, bool write);

}  // namespace cucpu
