// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/jam_groups.hpp: runs several lane groups of a region at once.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

struct Analyses;

/// Where all groups of a block use the same vectors, as the columns of a tiled matrix product, and
/// these do not fit into the registers, every group would load all of them again. Groups that run
/// together share each load, and their chains of dependent operations overlap.
///
/// Requires: block code, and analyses with the cost model of the target.
/// Guarantees: loops of one block whose iterations are independent and use more loop-invariant
/// vectors than there are registers run two or four iterations at a time, instruction by
/// instruction. Returns how many loops changed.
unsigned jam_groups(llvm::Function& block, Analyses&);

}  // namespace cucpu::simt
