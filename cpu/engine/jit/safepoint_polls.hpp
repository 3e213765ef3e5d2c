// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/safepoint_polls.hpp: cancellation of a running grid.
#pragma once

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace cucpu {

/// Requires: no later pass of LLVM. `entry` is block code, a thread loop or a fiber
/// (`entry_is_fiber`); null in a module of address-taken functions.
/// Guarantees: every cycle that may run for long, also one with several entries, polls on an edge
/// of it whether the grid is cancelled. Loops with a small constant trip count, loops over the bits
/// of a mask and the loop over blocks, which is a safepoint itself, have no poll.
void insert_safepoint_polls(llvm::Module&, llvm::Function* entry, bool entry_is_fiber);

}  // namespace cucpu
