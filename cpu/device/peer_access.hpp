// SPDX-License-Identifier: Apache-2.0
// cpu/device/peer_access.hpp: the memory that kernels of a context may access when there are
// several devices.
#pragma once

#include <cstdint>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

/// False for memory of another device without peer access (cuCtxEnablePeerAccess), access to its
/// pool (cuMemPoolSetAccess) or to the mapping (cuMemSetAccess). True for all other addresses,
/// which are accessible or fault.
bool can_access(Context& context, std::uintptr_t address, bool write);

/// Whether kernels of `context` may use arrays of `home`: on the same device, or with peer access.
bool can_access_arrays(Context& context, const Context& home);

}  // namespace cucpu::driver
