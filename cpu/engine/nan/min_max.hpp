// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/min_max.hpp: min and max of f32 and f16 as a GPU computes them: -0 is less than
// +0, and a number wins over a NaN, even a signaling one. Thread code, block code and LLVM's passes
// have them as llvm.minnum and llvm.maxnum.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Requires: no later pass of LLVM.
/// Guarantees: llvm.minnum and llvm.maxnum give the result of a GPU on the target. AArch64 has
/// FMINNM and FMAXNM, whose operands are quieted where they may be signaling NaNs; other targets
/// compare and select. llvm.minimum and llvm.maximum of f16 are computed in f32 where the target
/// does not have them. A select between a value and a constant bound is FMIN, FMAX, FMINNM or
/// FMAXNM where it is equivalent to one, and a select of integers where LLVM's code generator would
/// take it for one that it is not. Returns the number of min and max instructions.
unsigned lower_min_max(llvm::Function&, const llvm::TargetMachine*);

}  // namespace cucpu
