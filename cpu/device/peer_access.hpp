// cpu/device/peer_access.hpp: which memory the kernels of a context may touch, where there are
// several devices.
#pragma once

#include <cstdint>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

/// False for memory of another device without peer access (cuCtxEnablePeerAccess), access to its
/// pool (cuMemPoolSetAccess) or to the mapping (cuMemSetAccess). True for all other addresses: they
/// are somebody's, or fault by themselves.
bool can_access(Context& context, std::uintptr_t address, bool write);

/// Whether they may use arrays that `home` owns: those of their own device, and with peer access
/// those of others.
bool can_access_arrays(Context& context, const Context& home);

}  // namespace cucpu::driver
