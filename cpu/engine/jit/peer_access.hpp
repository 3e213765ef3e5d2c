// cpu/engine/jit/peer_access.hpp: where there are several devices, a kernel may touch only memory
// of its own device and what it was given access to. Only compiled in when there are several.
#pragma once

#include <cstdint>
#include <vector>

namespace llvm {
class Module;
}

namespace cucpu {

/// A parameter that accesses are counted from: a launch looks whether its kernel may reach what it
/// points to.
struct ParamPeerAccess {
  std::uint32_t offset, write;
  friend bool operator==(const ParamPeerAccess&, const ParamPeerAccess&) = default;
};

/// Puts a call of `cucpu_rt_check_peer_access` before every global or generic access of thread
/// code. With `assume_params` those counted from one parameter do without, and the parameters are
/// returned.
std::vector<ParamPeerAccess> check_peer_access(llvm::Module&, bool assume_params);

}  // namespace cucpu
