// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/spin_loops.hpp: loops that end only when another thread writes memory.
#pragma once

namespace llvm {
class DominatorTree;
class Function;
class Loop;
class LoopInfo;
class PostDominatorTree;
}  // namespace llvm

namespace cucpu {

/// Whether the loop may iterate until another thread (of this block, of another, or of the host)
/// writes memory. Loops that make progress on their own are no spin loops: counted loops, work
/// queues (`while ((i = atomicAdd(&next, 1)) < n)`), locks that are acquired and released within
/// one iteration.
bool is_spin_loop(const llvm::Loop&, const llvm::LoopInfo&, const llvm::DominatorTree&,
                  const llvm::PostDominatorTree&);

/// Whether every iteration passes a barrier of the block. Then the other threads of the block make
/// progress while one of them waits, in whatever order they run.
bool passes_barrier_every_iteration(const llvm::Loop&);

/// Requires: thread code.
/// Guarantees: every back edge of a spin loop calls cucpu.yield_block (where every iteration passes
/// a barrier) or cucpu.yield (elsewhere, from the fifth iteration on). Cycles with several entries
/// that read what other threads write count as spin loops. Returns whether there is one.
bool mark_spin_loops(llvm::Function&);

}  // namespace cucpu
