// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonical_select.hpp: selects of the canonical NaN: none where nothing sees it,
// and one instruction on AArch64.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Guarantees: no `isnan(x) ? canonical NaN : x` of which only arithmetic, comparisons and other
/// such selects read the bits: sums of a block go through shared memory, where canonicalize_nans()
/// had to make them canonical, and later stay in registers. Returns how many were dropped.
unsigned drop_canonical_selects(llvm::Function&);

/// Requires: block code; no later pass of LLVM, which treats all NaNs as equal.
/// Guarantees: on AArch64 `isnan(x) ? canonical NaN : x` is FMAXNM of the canonical NaN and x,
/// which returns x where that is a number and its first operand where both are quiet NaNs. Where x
/// may be a signaling NaN, and on other targets, nothing changes. Returns how many selects were
/// replaced.
unsigned fold_canonical_selects(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu
