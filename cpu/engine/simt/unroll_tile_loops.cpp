// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/unroll_tile_loops.cpp
#include "cpu/engine/simt/unroll_tile_loops.hpp"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMostCopies = 64;  // of the code that loads a row

bool is_final(const Loop& loop) { return findOptionMDForLoop(&loop, "llvm.loop.unroll.disable"); }

/// Whether lanes leave the loop one by one: it tests the bits of a mask.
bool tests_lanes(const Loop& loop) {
  SmallVector<BasicBlock*> exiting;
  loop.getExitingBlocks(exiting);
  return any_of(exiting, [](BasicBlock* block) {
    auto* branch = dyn_cast<BranchInst>(block->getTerminator());
    auto* test =
        branch && branch->isConditional() ? dyn_cast<User>(branch->getCondition()) : nullptr;
    return test && any_of(test->operands(), [](Value* operand) {
             auto* bits = dyn_cast<Instruction>(operand);
             return bits && bits->getNumOperands() != 0 &&
                    bits->getOperand(0)->getType()->isVectorTy();
           });
  });
}

/// What unrolling a loop completely makes of it.
struct Copies {
  std::uint64_t count = 1;  ///< of the code inside
  bool has_loops = false;   ///< inside, whose iterations become constant
};

/// Nullopt if the loop has to stay.
std::optional<Copies> copies(const Loop& loop, ScalarEvolution& evolution) {
  const unsigned trips = evolution.getSmallConstantMaxTripCount(&loop);
  if (trips == 0) return {};
  Copies all;
  for (const Loop* inner : loop) {
    if (is_final(*inner) || tests_lanes(*inner)) continue;
    const auto inside = copies(*inner, evolution);
    if (!inside) return {};
    all.count = std::max(all.count, inside->count);
    all.has_loops = true;
  }
  all.count = std::min<std::uint64_t>(all.count * trips, kMostCopies + 1);
  return all;
}

}  // namespace

void unroll_tile_loops(Function& block, Analyses& analyses) {
  auto& evolution = analyses.functions.getResult<ScalarEvolutionAnalysis>(block);
  for (Loop* loop : analyses.functions.getResult<LoopAnalysis>(block).getLoopsInPreorder()) {
    if (!findOptionMDForLoop(loop, kTileLoop)) continue;
    const auto made = copies(*loop, evolution);
    if (!made || made->count > kMostCopies || (!loop->isInnermost() && !made->has_loops)) continue;
    for (Loop* each : loop->getLoopsInPreorder())
      if (!is_final(*each) && !tests_lanes(*each))
        addStringMetadataToLoop(each, "llvm.loop.unroll.full");
  }
}

}  // namespace cucpu::simt
