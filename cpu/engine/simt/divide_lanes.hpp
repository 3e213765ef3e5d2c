// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/divide_lanes.hpp: integer division of all lanes by one number.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instruction.h>

namespace cucpu::simt {

/// Emits `x / d` or `x % d` (UDiv, SDiv, URem, SRem) of a vector and a scalar of at most 32 bits,
/// which is known at run time only. Processors divide vectors lane by lane; this is a
/// multiplication by a reciprocal, computed once. Exact for all operands that LLVM's instruction
/// defines; INT_MIN / -1 wraps, and x / 0 is some number.
llvm::Value* divide_lanes(llvm::IRBuilder<>&, unsigned opcode, llvm::Value* x, llvm::Value* d);

}  // namespace cucpu::simt
