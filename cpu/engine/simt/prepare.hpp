// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/prepare.hpp: passes that bring thread code into the form that vectorize() reads:
// reducible control flow without switches, loops in simplified and LCSSA form, one return, barriers
// at the ends of their blocks.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/Function.h>

#include <string>

#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu::simt {

// A function that returns a string returns why the kernel cannot be vectorized, or an empty string.

/// Requires: thread code.
/// Guarantees: no call of a function that has a body is left.
std::string inline_calls(llvm::Function& thread);

/// Requires: calls are inlined.
/// Guarantees: special registers that follow from the block shape are constants, and the others
/// have the range that they can have in a launch as the options describe it.
void specialize_block_shape(llvm::Function& thread, const Options&);

/// Requires: nothing.
/// Guarantees: threads that return, exit or trap all end in one block with one return.
void unify_exits(llvm::Function& thread);

/// Whether a loop has more than one entry.
bool is_irreducible(llvm::Function& thread);

/// Requires: nothing.
/// Guarantees: (x >> k) & c is (x & c << k) >> k. Clearing the low bits first lets the shape
/// analysis see that a shifted thread index is uniform.
void mask_before_shift(llvm::Function& thread);

/// Requires: loops in simplified form.
/// Guarantees: an integer comparison is used only in its own block and by phis. A comparison in the
/// block of its use may be a scalar test, and no vector of its results stays live. LCSSA form must
/// be restored afterwards.
void repeat_comparisons(llvm::Function& thread);

/// Requires: barriers at the ends of their blocks.
/// Guarantees: the same as repeat_comparisons() for equalities and comparisons of indices that
/// branches use, which then are in the region of the branch.
void repeat_branch_comparisons(llvm::Function& thread);

/// Requires: one return.
/// Guarantees: a barrier is the last instruction of its block before the terminator, and the return
/// is alone in its block.
void split_at_barriers(llvm::Function& thread);

/// Requires: all passes above.
/// Guarantees: vectorize() supports every instruction of code for which this returns an empty
/// string, and no thread of it spins on another thread of its block.
std::string find_unsupported(llvm::Function& thread, const Options&);

/// Splits blocks before these instructions, so that control can leave for masked code there.
void split_before(llvm::ArrayRef<llvm::Instruction*>);

struct Needs {
  bool whole_warps = false;  ///< warp operations, or lanes that communicate through volatile memory
  bool barriers = false;
};
Needs needs_of(llvm::Function& thread);

}  // namespace cucpu::simt
