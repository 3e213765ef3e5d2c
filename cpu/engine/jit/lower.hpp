// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/lower.hpp: the scalar path from thread code to machine code (W = 1): markers
// become loads from the contexts and calls of runtime routines.
#pragma once

#include <string>

namespace llvm {
class Function;
class IRBuilderBase;
class Module;
class Value;
}  // namespace llvm

namespace cucpu {

/// Requires: an extracted kernel without ThreadNeeds::fibers.
/// Guarantees: `kernel` is replaced by `void(BlockContext*)`, a loop over the threads of a block,
/// without markers.
llvm::Function* lower_to_thread_loop(llvm::Function& kernel, const std::string& name);

/// Requires: an extracted kernel.
/// Guarantees: `kernel` is replaced by `void(ThreadContext*)`, which runs one thread on a fiber; it
/// and the functions it calls have no markers.
llvm::Function* lower_to_fiber(llvm::Function& kernel, const std::string& name);

/// Threads of a kernel that spins rarely wait. A fiber runs them one after the other, without
/// returning to the scheduler; while one of them waits in cucpu.yield, other fibers run those that
/// have not started.
///
/// Requires: an extracted kernel with ThreadNeeds::only_spins.
/// Guarantees: as lower_to_fiber(); the function then runs further threads of the block.
llvm::Function* lower_to_fiber_loop(llvm::Function& kernel, const std::string& name);

/// Requires: the address-taken functions of a module (extract.hpp).
/// Guarantees: they have no markers and find their thread through the host thread.
void lower_functions(llvm::Module&);

/// The ThreadContext* of the thread that runs, by a call of a routine.
llvm::Value* current_thread(llvm::IRBuilderBase&, llvm::Module&);

}  // namespace cucpu
