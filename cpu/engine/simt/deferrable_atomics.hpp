// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/deferrable_atomics.hpp: atomic operations that may take effect later than in
// program order.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Instructions.h>

namespace cucpu::simt {

/// The metadata by which block code marks them for jit/deferred_atomics.hpp.
inline constexpr const char* kDeferrable = "cucpu.deferrable";

/// Relaxed atomics without a used result that are the last memory access of their thread, in a
/// kernel in which no thread waits for another block. Only the end of the grid is ordered after
/// them, so a host thread may defer them over some of the blocks that it runs next.
llvm::SmallPtrSet<const llvm::AtomicRMWInst*, 2> find_deferrable_atomics(llvm::Function& thread);

}  // namespace cucpu::simt
