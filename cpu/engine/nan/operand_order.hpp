// cpu/engine/nan/operand_order.hpp: which operand of a sum or product of doubles is the first one.
// LLVM takes it for granted that it does not matter and exchanges them; where both are NaNs, it
// decides which of them a GPU passes on.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu {

/// Marks the first operands, so that passes may exchange them and not lose track. Costs the code
/// nothing; does not take part in what LLVM estimates.
void mark_first_operands(llvm::Function&);

/// Puts what is marked first again and takes the marks away. Nothing may be left between marking
/// and this that does not know the marks.
void restore_operand_order(llvm::Function&);

}  // namespace cucpu
