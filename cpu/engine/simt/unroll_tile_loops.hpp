// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/unroll_tile_loops.hpp: code of its own for each lane group that loads a tile.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

struct Analyses;

/// The place of a lane group in a tile, and where a row of it ends, follow from the numbers of the
/// group and of the iteration. If both are constants, divisions, tests and masks are as well.
///
/// Requires: block code with simplified loops.
/// Guarantees: LLVM is asked to unroll loops marked with kTileLoop, and the loops inside whose trip
/// count it knows, completely, if that makes few copies.
void unroll_tile_loops(llvm::Function& block, Analyses&);

}  // namespace cucpu::simt
