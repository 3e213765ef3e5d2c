// cpu/engine/jit/lower.hpp: the scalar way from thread code to machine code (W = 1): markers become
// loads and calls.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace cucpu {

/// What the threads of a kernel need of each other. Says which form the code takes.
struct ThreadNeeds {
  bool fibers = false;     ///< threads wait for each other, or functions remain that are called
  bool spins = false;      ///< some loop ends when another thread writes memory
  bool recursive = false;  ///< the depth of the stack is not known
};

/// Leaves only what `kernel` reaches, and inlines every function that is neither recursive nor
/// called through a pointer. Functions whose address is taken become declarations: the module has
/// one copy of them (extract_functions), linked in.
/// `after_inlining` may look at the module before local variables are promoted.
void extract_kernel(llvm::Function& kernel, void (*after_inlining)(llvm::Module&) = nullptr);

/// Leaves only the functions whose address is taken, or that `also` names, and what they call.
/// Their names.
std::vector<std::string> extract_functions(llvm::Module&, std::span<const std::string> also);

/// Of an isolated kernel. Marks loops that wait by a cucpu.yield, or cucpu.turn, on their
/// back edges.
ThreadNeeds find_needs(llvm::Function& kernel);

/// void(BlockContext*): a loop over the threads. Only without fibers. Replaces `kernel`.
llvm::Function* lower_to_loop(llvm::Function& kernel, const std::string& name);

/// void(ThreadContext*): one thread on a fiber. Replaces `kernel`; lowers the functions it calls as
/// well.
llvm::Function* lower_to_fiber(llvm::Function& kernel, const std::string& name);

/// Lowers the markers of functions that are called through pointers.
void lower_functions(llvm::Module&);

/// Lets every loop that may run long notice that the grid is cancelled. After optimization; `entry`
/// is the function lowered above or block code.
void insert_safepoint_polls(llvm::Module&, llvm::Function* entry, bool entry_is_fiber);

}  // namespace cucpu
