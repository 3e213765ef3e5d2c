// cpu/engine/jit/state_space_check.hpp: accesses in a state space their address is not in (717).
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// An access to global memory whose address provably leads into shared or local memory becomes a
/// trap, as on a GPU. Here all memory is the host's and the access would go through; what cannot be
/// proven does.
void trap_state_space_violations(llvm::Module&);

}  // namespace cucpu
