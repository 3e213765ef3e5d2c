// cpu/engine/simt/deferrable_atomics.hpp: atomics whose effect may come later than where they
// stand.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Instructions.h>

namespace cucpu::simt {

/// The name of the metadata that block code puts on them (jit/deferred_atomics.cpp reads it).
inline constexpr const char* kDeferrable = "cucpu.deferrable";

/// Relaxed atomics without a result that are the last thing their thread does to memory, in a
/// kernel in which nobody waits for another block: nothing orders them before anything but the end
/// of the grid, so they may be put off over some of the blocks that a host thread runs next.
llvm::SmallPtrSet<const llvm::AtomicRMWInst*, 2> find_deferrable_atomics(llvm::Function& thread);

}  // namespace cucpu::simt
