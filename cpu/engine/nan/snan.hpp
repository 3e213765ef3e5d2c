// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/snan.hpp: which f32 and f16 values, or their bits as integers, are never signaling
// NaNs.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <optional>

namespace cucpu {

/// Results of arithmetic are numbers or quiet NaNs; values from memory, arguments and integers may
/// be signaling NaNs. An analysis of a function at the time of construction.
class NeverSNaN {
 public:
  explicit NeverSNaN(llvm::Function&);
  bool operator()(const llvm::Value*) const;

 private:
  /// Instructions that forward one of their operands which may be a signaling NaN.
  llvm::SmallPtrSet<const llvm::Instruction*, 32> may_forward_snan_;
};

/// `isnan(x) ? y : x`, in floats or in their bits.
struct NanSelect {
  llvm::Value *x, *y;
};
std::optional<NanSelect> match_nan_select(const llvm::SelectInst&);

/// FMAXNM of AArch64, which returns the first operand where both are quiet NaNs. It is a
/// constrained intrinsic: LLVM would fold a plain llvm.maxnum with a NaN, or of equal operands.
llvm::Value* create_fmaxnm(llvm::IRBuilderBase&, llvm::Value* x, llvm::Value* y);

}  // namespace cucpu
