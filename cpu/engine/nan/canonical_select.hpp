// cpu/engine/nan/canonical_select.hpp: the NaN a GPU gives, with one instruction where the
// processor has one.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Rewrites `isnan(x) ? NaN of a GPU : x` in block code that no pass of LLVM will look at any more,
/// for AArch64: FMAXNM of that NaN and x is the number, where x is one, and its first operand where
/// both are quiet NaNs. Elsewhere, and where x may be a NaN that signals, nothing changes. Returns
/// how many were rewritten.
unsigned fold_canonical_selects(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu
