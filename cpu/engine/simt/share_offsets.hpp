// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/share_offsets.hpp: one offset for the pointers that a loop moves together.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// In a row of a sparse matrix, `for (k = rows[i]; k < end; ++k) sum += values[k] * x[columns[k]]`,
/// NVRTC keeps a pointer into each array. They are vectors of 64 bits that differ by the same
/// number in all lanes: one vector of offsets, added to addresses that are the same for all lanes,
/// takes a half of the registers, and the place of each lane is extracted once for all arrays.
///
/// Requires: thread code, loops in simplified and LCSSA form.
/// Guarantees: integers of 64 bits that start at `uniform + x`, with the same x, which follows from
/// memory, and grow by the same constant are such sums. Pointers that lanes move through memory
/// together (x follows from the thread's index) stay as they are: they are scalars.
void share_offsets(llvm::Function& thread);

}  // namespace cucpu::simt
