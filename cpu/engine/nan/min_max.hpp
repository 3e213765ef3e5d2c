// cpu/engine/nan/min_max.hpp: a GPU's min and max of f32 and f16. Thread code, block code and
// LLVM's passes have them as one instruction, llvm.minnum or llvm.maxnum: -0 is less than +0, and a
// NaN, even one that signals, yields to a number.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu {

/// Makes them what the processor does, when no pass of LLVM will look at the function any more.
/// AArch64's FMINNM and FMAXNM are right but for NaNs that signal: operands that may be such are
/// made quiet first; other processors compare and choose. A choice between a value and a bound
/// becomes one of FMIN, FMAX, FMINNM and FMAXNM where it is one, and is kept from becoming one
/// where it is not. Returns how many min and max there are.
unsigned lower_min_max(llvm::Function&, const llvm::TargetMachine*);

}  // namespace cucpu
