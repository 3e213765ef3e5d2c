// cpu/engine/nan/snan.hpp: which values of f32 and f16, or their bits, cannot be a NaN that
// signals.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <optional>

namespace cucpu {

/// Arithmetic gives quiet NaNs; what comes from memory, arguments or integers may signal. Looked at
/// once, for a function as it is then.
class Quiet {
 public:
  explicit Quiet(llvm::Function&);
  bool operator()(const llvm::Value*) const;

 private:
  llvm::SmallPtrSet<const llvm::Instruction*, 32> loud_;  // of those that only pass values on
};

/// `isnan(x) ? y : x`, in floats or in their bits.
struct NanSelect {
  llvm::Value *x, *y;
};
std::optional<NanSelect> match_nan_select(const llvm::SelectInst&);

/// AArch64's FMAXNM, of quiet NaNs the first. LLVM folds a plain maxnum with a NaN, or of one
/// value, away; this form it leaves alone.
llvm::Value* create_fmaxnm(llvm::IRBuilderBase&, llvm::Value* x, llvm::Value* y);

}  // namespace cucpu
