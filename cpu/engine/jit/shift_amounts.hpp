// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/shift_amounts.hpp: amounts of shifts that are constants.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu {

/// A lane that is shifted by too much is poison, which the program replaces: `n == 0 ? 0 : x >> (32
/// - n)`. If the amounts are constants, LLVM 19 takes such a lane for zero when it makes code for
/// x86-64, and leaves out that it is replaced by zero. But the shift fills it with signs.
///
/// Requires: no later pass that moves or simplifies shifts.
/// Guarantees: constant amounts of vector shifts are smaller than the number of bits.
void bound_shift_amounts(llvm::Function&);

}  // namespace cucpu
