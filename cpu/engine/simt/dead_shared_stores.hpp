// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/dead_shared_stores.hpp: stores to shared memory that nothing reads.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// In a reduction in shared memory, LLVM keeps in registers what one step stores and the next one
/// loads. Nothing reads the stores then, but LLVM does not know that shared memory is undefined
/// once its block has ended.
///
/// Requires: block code in which the address of shared memory is a field of the context.
/// Guarantees: no store to a constant place in shared memory is left that no load reaches before
/// the block ends or the place is written again. Code from which the address escapes is not
/// changed. Returns how many stores were removed.
unsigned remove_dead_shared_stores(llvm::Function& block);

}  // namespace cucpu::simt
