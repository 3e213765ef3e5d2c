// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/unroll_barrier_loops.hpp: unrolls short loops whose iterations pass a barrier.
#pragma once

#include <llvm/IR/Function.h>

#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu::simt {

struct Analyses;

struct UnrolledLoops {
  bool changed = false;
  bool postponed = false;  ///< optimized code has more unrolled loops
};

/// The steps of a tree in shared memory (`for (s = 128; s > 0; s >>= 1)`) or of a transform differ
/// in one number. If each step is code of its own, that number is a constant: the analyses know
/// which groups take part and which addresses are contiguous.
///
/// Requires: thread code of a known block shape.
/// Guarantees: loops with a barrier, a constant trip count and no other such loop inside are
/// unrolled, as long as the function stays within the limits.
UnrolledLoops unroll_barrier_loops(llvm::Function& thread, Analyses&, const UnrollLimits&);

}  // namespace cucpu::simt
