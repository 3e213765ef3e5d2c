// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/narrow_integers.hpp: computes with numbers of 8 or 16 bits where they suffice.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// CUDA C++ computes with bytes as 32-bit numbers, so that a vector register holds a quarter of the
/// lanes that it could hold.
///
/// Requires: thread code.
/// Guarantees: 32-bit computations that begin with extended numbers of 8 or 16 bits, end in
/// comparisons or in numbers of 8 or 16 bits, and whose intermediate results all fit are done with
/// 8 or 16 bits. Sums that do not fit saturate if comparisons with smaller numbers are all that
/// follows from them.
void narrow_integers(llvm::Function& thread);

}  // namespace cucpu::simt
