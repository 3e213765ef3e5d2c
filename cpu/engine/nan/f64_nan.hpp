// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/f64_nan.hpp: how instructions treat f64 NaNs, and f64 arithmetic that produces the
// NaN of a GPU.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace cucpu::nan {

inline bool is_double(const llvm::Value* v) { return v->getType()->getScalarType()->isDoubleTy(); }

/// How an instruction treats an f64 NaN among its operands.
enum class NanUse {
  produces,  ///< arithmetic: propagates it, and makes NaNs of numbers
  forwards,  ///< copies its bits into a double, or into bits that become a double again
  ignores,   ///< depends on whether a value is a NaN, not on the bits of the NaN
  observes,  ///< makes its bits visible: memory, integers, other functions
};
NanUse nan_use_of(const llvm::Instruction&);

/// Replaces all uses of an arithmetic instruction by its result with the NaN of a GPU: the NaN of
/// one of its operands, quieted, or 0xfff8000000000000. May erase the instruction.
void replace_nan(llvm::Instruction&);

/// Whether one of these doubles and vectors of doubles is a NaN.
llvm::Value* any_nan(llvm::IRBuilderBase&, llvm::ArrayRef<llvm::Value*>);

}  // namespace cucpu::nan
