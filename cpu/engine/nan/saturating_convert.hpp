// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/saturating_convert.hpp: vectors of floats to integers, saturated, as PTX's cvt.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Requires: no later pass of LLVM that turns selects into minima or maxima of other zeros or NaNs.
/// Guarantees: vector calls of llvm.fptosi.sat and llvm.fptoui.sat with results of at most 32 bits
/// are comparisons, selects and plain conversions, with the same results, on targets without
/// saturating instructions (x86-64), where LLVM converts lane by lane. Returns their number.
unsigned lower_saturating_conversions(llvm::Function&, const llvm::TargetMachine*);

/// The same for every target.
unsigned lower_saturating_conversions(llvm::Function&);

}  // namespace cucpu
