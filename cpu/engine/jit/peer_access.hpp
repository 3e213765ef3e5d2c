// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/peer_access.hpp: checks of peer access in kernels. With several devices a kernel
// may access only memory of its own device and of devices whose peer access is enabled.
#pragma once

#include <cstdint>
#include <vector>

namespace llvm {
class Module;
}

namespace cucpu {

/// The kernel parameter at `offset` is a pointer that accesses derive from; `write`: one of them is
/// a store. A launch checks whether the kernel may access what it points to.
struct ParamPeerAccess {
  std::uint32_t offset, write;
  friend bool operator==(const ParamPeerAccess&, const ParamPeerAccess&) = default;
};

/// Requires: thread code of one kernel, or of address-taken functions; several devices.
/// Guarantees: a call of `cucpu_rt_check_peer_access` precedes every global or generic access. With
/// `assume_params` accesses that derive from one parameter have no check, and the result lists
/// these parameters.
std::vector<ParamPeerAccess> check_peer_access(llvm::Module&, bool assume_params);

}  // namespace cucpu
