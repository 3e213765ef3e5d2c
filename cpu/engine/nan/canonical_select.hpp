// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonical_select.hpp: the canonical NaN in one instruction on AArch64.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Requires: block code; no later pass of LLVM, which treats all NaNs as equal.
/// Guarantees: on AArch64 `isnan(x) ? canonical NaN : x` is FMAXNM of the canonical NaN and x,
/// which returns x where that is a number and its first operand where both are quiet NaNs. Where x
/// may be a signaling NaN, and on other targets, nothing changes. Returns how many selects were
/// replaced.
unsigned fold_canonical_selects(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu
