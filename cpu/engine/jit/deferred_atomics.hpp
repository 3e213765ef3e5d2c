// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/deferred_atomics.hpp: one atomic operation for several blocks.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu {

/// Requires: optimized block code that runs several blocks in one call, with deferrable atomics
/// marked (simt/deferrable_atomics.hpp).
/// Guarantees: their operands are buffered over up to 256 blocks and applied with one atomic
/// operation that computes the same sums in the same order; a buffer is written out when the
/// address changes and before the function returns.
void combine_deferred_atomics(llvm::Function& block);

}  // namespace cucpu
