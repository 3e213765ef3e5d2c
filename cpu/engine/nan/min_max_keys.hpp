// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/min_max_keys.hpp: many minimums and maximums of the same f32 vectors, computed on
// integers.
#pragma once

#include <llvm/ADT/ArrayRef.h>

namespace llvm {
class IntrinsicInst;
}

namespace cucpu {

/// Replaces calls of llvm.minnum and llvm.maxnum by minimums and maximums of integers, where the
/// calls of a basic block have few other operands and results: an integer minimum is one
/// instruction, that of floats as a GPU computes it five on x86-64. `calls`: in the order of the
/// function. Returns the calls that are left.
///
/// The key of a float is an integer in the order of the numbers, with -0 below +0, and
/// 0x7fffffff for every NaN. A number wins over a NaN: in a minimum, because the key of a NaN is
/// the largest; in a maximum, because keys are compared after 1 was added, which makes that of a
/// NaN the smallest.
llvm::SmallVector<llvm::IntrinsicInst*> lower_to_keys(llvm::ArrayRef<llvm::IntrinsicInst*> calls);

}  // namespace cucpu
