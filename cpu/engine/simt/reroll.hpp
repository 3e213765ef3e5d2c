// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/reroll.hpp: undoes the unrolling of loops over the elements of a row.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// `for (j = lane; j < n; j += 32) body` arrives as two loops: one that runs the body for the
/// remainder of the trip count, and one that runs four copies of it. If n is no multiple of 32,
/// lanes have different remainders, so they are at different places in the second loop, and its
/// contiguous loads become gathers.
///
/// Requires: thread code with loops as NVRTC writes them (tests at their ends).
/// Guarantees: where the second loop provably computes what further iterations of the first would,
/// and the trip count may differ between threads, the first loop runs all iterations. Assumes what
/// the compiler assumed when it wrote the second loop: 32-bit indices do not wrap in iterations
/// that run. Returns whether something changed; unreachable blocks may be left.
bool reroll_loops(llvm::Function& thread);

}  // namespace cucpu::simt
