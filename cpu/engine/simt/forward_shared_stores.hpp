// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/forward_shared_stores.hpp: loads of what was stored to shared memory just before.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// In the last steps of a reduction in shared memory, a group loads elements of two vectors that it
/// has just stored. A processor does not forward from two stores to a load: the load waits until
/// both are in the cache.
///
/// Requires: block code in which the address of shared memory is a field of the context.
/// Guarantees: a load from a constant place in shared memory, all of whose elements are of one or
/// two vectors that the same basic block has stored, is a shuffle of these. Returns how many loads
/// were removed.
unsigned forward_shared_stores(llvm::Function& block);

}  // namespace cucpu::simt
