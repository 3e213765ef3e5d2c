// cpu/engine/simt/widen_masks.hpp: masks in the form in which the processor compares and chooses.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu::simt {

/// AArch64 has no registers for masks: a comparison gives lanes of zeros or ones, as wide as what
/// was compared, and a choice takes such. LLVM makes vectors of i1 lanes of bytes (and one register
/// for every lane where they are more than sixteen and go from block to block), back and forth at
/// every step. Here masks that are combined, or go from block to block, become vectors of i32 whose
/// sign bits they are. For block code that no pass of LLVM will look at any more; for other
/// processors nothing changes. Returns how many masks were rewritten.
unsigned widen_masks(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu::simt
