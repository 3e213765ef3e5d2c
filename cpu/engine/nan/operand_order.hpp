// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/operand_order.hpp: the order of the operands of f64 sums and products. LLVM treats
// them as commutative and swaps operands; where both are NaNs, a GPU chooses by their order.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu {

/// Requires: nothing.
/// Guarantees: the first operand of every f64 sum, product and fma is marked by
/// llvm.arithmetic.fence, which passes of LLVM keep with the operand and count as free.
void mark_first_operands(llvm::Function&);

/// Requires: code that mark_first_operands() marked, changed only by passes that keep the marks.
/// Guarantees: marked operands come first again, and no marks are left.
void restore_operand_order(llvm::Function&);

}  // namespace cucpu
