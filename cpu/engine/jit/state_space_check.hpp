// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/state_space_check.hpp: accesses with an address of another state space (717).
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Requires: thread code.
/// Guarantees: a global access whose address provably points to shared or local memory is a trap,
/// as on a GPU. All memory is host memory here, so an access that is not proven invalid succeeds.
void trap_state_space_violations(llvm::Module&);

}  // namespace cucpu
