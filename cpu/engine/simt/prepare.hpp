// cpu/engine/simt/prepare.hpp: thread code is cleaned and brought into the form the vectorizer
// reads.
#pragma once

#include <llvm/IR/Function.h>

#include <string>

#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu::simt {

/// Inlines, specialises on the block shape and cleans `thread` in place. Leaves: reducible flow, no
/// switches, loops in simplified and LCSSA form, one return, no unreachable ends, barriers at the
/// end of their blocks. Returns why it cannot, or an empty string.
std::string prepare(llvm::Function& thread, const Options&);

/// Splits blocks before these instructions, so that control can leave for masked code in front of
/// them.
void split_before(llvm::ArrayRef<llvm::Instruction*>);

struct Needs {
  bool whole_warps = false;  ///< warp operations, or lanes that talk through volatile shared memory
  bool barriers = false;
};
Needs needs_of(llvm::Function& thread);

}  // namespace cucpu::simt
