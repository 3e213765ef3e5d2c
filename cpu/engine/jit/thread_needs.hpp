// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/thread_needs.hpp: what the threads of a kernel need of each other.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu {

/// Decides which form the code of a kernel takes.
struct ThreadNeeds {
  bool fibers = false;      ///< threads wait for each other, or calls remain: one fiber per thread
  bool spins = false;       ///< a loop ends only when another thread writes memory
  bool only_spins = false;  ///< threads need fibers for such loops, and for nothing else
  bool recursive = false;   ///< the depth of the stack is not known at compile time
};

/// Requires: an extracted kernel (extract.hpp) whose calls are inlined.
/// Guarantees: the back edges of spin loops call cucpu.yield or cucpu.yield_block (spin_loops.hpp).
ThreadNeeds find_thread_needs(llvm::Function& kernel);

}  // namespace cucpu
