// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/unroll_barrier_loops.cpp
#include "cpu/engine/simt/unroll_barrier_loops.hpp"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/Transforms/Utils/LCSSA.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/UnrollLoop.h>

#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMostIterations = 16;
constexpr unsigned kMostBarriers = 32;  // of the function: each begins a region

unsigned barriers_of(const BasicBlock& block) {
  return static_cast<unsigned>(
      count_if(block, [](const Instruction& inst) { return is_barrier(marker_name(&inst)); }));
}

struct Size {
  unsigned instructions = 0, barriers = 0;
};

template <typename Blocks>
Size size_of(const Blocks& blocks) {
  Size size;
  for (const BasicBlock& block : blocks) {
    size.instructions += static_cast<unsigned>(block.size());
    size.barriers += barriers_of(block);
  }
  return size;
}

Size size_of(const Loop& loop) { return size_of(make_pointee_range(loop.blocks())); }

}  // namespace

UnrolledLoops unroll_barrier_loops(Function& thread, Analyses& analyses,
                                   const UnrollLimits& limits) {
  auto& manager = analyses.functions;
  UnrolledLoops result;
  for (bool again = true; again;) {
    again = false;
    auto& loops = manager.getResult<LoopAnalysis>(thread);
    auto& evolution = manager.getResult<ScalarEvolutionAnalysis>(thread);
    auto& tree = manager.getResult<DominatorTreeAnalysis>(thread);
    auto& assumptions = manager.getResult<AssumptionAnalysis>(thread);
    for (Loop* loop : loops.getLoopsInPreorder()) {
      const Size body = size_of(*loop), all = size_of(thread);
      if (body.barriers == 0 ||
          any_of(*loop, [](const Loop* inner) { return size_of(*inner).barriers > 0; }))
        continue;
      const unsigned trips = evolution.getSmallConstantTripCount(loop);
      if (trips < 2 || trips > kMostIterations) continue;
      const unsigned instructions = all.instructions + (trips - 1) * body.instructions;
      if (all.barriers + (trips - 1) * body.barriers > kMostBarriers ||
          instructions > limits.optimized)
        continue;
      if (instructions > limits.now) {
        result.postponed = true;
        continue;
      }
      simplifyLoop(loop, &tree, &loops, &evolution, &assumptions, nullptr, false);
      formLCSSARecursively(*loop, tree, &loops, &evolution);
      OptimizationRemarkEmitter remarks{&thread};
      UnrollLoopOptions options{};
      options.Count = trips;
      options.Force = true;
      if (UnrollLoop(loop, options, &loops, &evolution, &tree, &assumptions,
                     &manager.getResult<TargetIRAnalysis>(thread), &remarks,
                     /*PreserveLCSSA=*/true) != LoopUnrollResult::FullyUnrolled)
        continue;
      result.changed = again = true;
      break;  // analyses of the loops have changed
    }
    analyses.clear();
  }
  return result;
}

}  // namespace cucpu::simt
