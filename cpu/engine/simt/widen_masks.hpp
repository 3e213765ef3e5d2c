// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/widen_masks.hpp: masks in the form in which the processor compares and selects.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu::simt {

/// Requires: block code; no later pass of LLVM.
/// Guarantees: on AArch64, masks that are combined or live across blocks are vectors of i32 whose
/// sign bits are the mask; on other targets nothing changes. AArch64 has no mask registers: a
/// comparison gives lanes of zeros or ones, as wide as its operands, and a select takes such lanes.
/// LLVM lowers vectors of i1 to bytes (and to one register per lane where more than sixteen live
/// across blocks) and converts at every step. Returns how many masks were rewritten.
unsigned widen_masks(llvm::Function& block, const llvm::TargetMachine* target);

}  // namespace cucpu::simt
