// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/lower_gathers.hpp: gathers as loads of single lanes.
#pragma once

#include <llvm/IR/Function.h>

#include "cpu/engine/simt/vector_target.hpp"

namespace cucpu::simt {

/// Where gathers are loads of single lanes (`x[columns[k]]` on AArch64, and on x86-64 where gathers
/// are slow), LLVM computes a vector of addresses and extracts each, which occupies the execution
/// ports that also insert the elements. The indices of 32 bits take half of the registers, and
/// addressing modes scale and add them.
///
/// Requires: block code; no later pass of LLVM, which would form vectors of addresses again.
/// Guarantees: gathers of all lanes from one address plus indices of 32 bits are loads, unless the
/// target has gathers. Returns how many there were.
unsigned lower_gathers(llvm::Function& block, const VectorTarget& target);

}  // namespace cucpu::simt
