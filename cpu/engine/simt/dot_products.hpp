// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/dot_products.hpp: sums of products of bytes as dot product instructions.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu::simt {

/// `sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w`, where a and b are four bytes in a 32-bit
/// number (PTX's dp4a, or the same in CUDA C++), is one instruction on processors that have one for
/// vectors (dotprod and i8mm of AArch64, AVX-VNNI and AVX512-VNNI of x86-64).
///
/// Requires: block code; no later pass of LLVM that would have to understand it.
/// Guarantees: such sums of vectors are calls of the target's intrinsic if it has one. Returns how
/// many there are.
unsigned form_dot_products(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu::simt
