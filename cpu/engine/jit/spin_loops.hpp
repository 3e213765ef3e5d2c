// cpu/engine/jit/spin_loops.hpp: which loops end when another thread writes memory.
#pragma once

namespace llvm {
class DominatorTree;
class Loop;
class LoopInfo;
class PostDominatorTree;
}  // namespace llvm

namespace cucpu {

/// Whether the loop may go round until another thread, of this block or another, or the host writes
/// memory. Loops that get on by themselves do not count: those with a counter, work queues
/// (`while ((i = atomicAdd(&next, 1)) < n)`), locks that are taken and given back in one turn.
bool is_spin_loop(const llvm::Loop&, const llvm::LoopInfo&, const llvm::DominatorTree&,
                  const llvm::PostDominatorTree&);

/// Whether every turn of the loop passes a barrier of the block: then the other threads of the
/// block get on while one of them waits, whatever order they run in.
bool passes_barrier_every_iteration(const llvm::Loop&);

}  // namespace cucpu
