// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/widen_masks.hpp: masks in the form in which the processor compares and selects.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

#include <optional>

namespace cucpu::simt {

/// How a target without mask registers works with masks.
struct MaskForm {
  /// An instruction gives the sign bits of all lanes as an integer (AVX2). Otherwise one gives the
  /// least or the greatest lane.
  bool has_sign_bits = false;
  /// Masks of more lanes stay as they are: with sixteen registers (AVX2), those that take two or
  /// more would be spilled.
  unsigned most_lanes = ~0U;

  /// Of AArch64 and AVX2; nullopt for other targets.
  static std::optional<MaskForm> of(const llvm::TargetMachine*);
};

/// Requires: block code; no later pass of LLVM.
/// Guarantees: masks that are combined or live across blocks are vectors of i32 whose sign bits are
/// the mask; without a form nothing changes. AArch64 and AVX2 have no mask registers: a comparison
/// gives lanes of zeros or ones, as wide as its operands, and a select takes such lanes. LLVM
/// lowers vectors of i1 to bytes or words (on AArch64 to one register per lane where more than
/// sixteen live across blocks) and converts at every step. Returns how many masks were rewritten.
unsigned widen_masks(llvm::Function& block, const std::optional<MaskForm>&);

}  // namespace cucpu::simt
