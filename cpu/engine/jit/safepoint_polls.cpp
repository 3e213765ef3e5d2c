// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/safepoint_polls.cpp
#include "cpu/engine/jit/safepoint_polls.hpp"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "cpu/engine/jit/back_edges.hpp"
#include "cpu/engine/jit/lower.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/run/safepoints.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu {

using namespace llvm;

namespace {

/// Whether a loop clears the lowest bit of a number until none is left, as loops over the lanes of
/// a mask do: at most 64 iterations.
bool goes_over_bits(const Loop& loop) {
  using namespace PatternMatch;
  const auto* branch =
      loop.getLoopLatch() ? dyn_cast<BranchInst>(loop.getLoopLatch()->getTerminator()) : nullptr;
  if (!branch || !branch->isConditional()) return false;
  ICmpInst::Predicate predicate{};
  Value* rest = nullptr;
  if (!match(branch->getCondition(), m_ICmp(predicate, m_Value(rest), m_Zero())) ||
      !ICmpInst::isEquality(predicate))
    return false;
  const bool on_zero = predicate == ICmpInst::ICMP_EQ;
  if (loop.contains(branch->getSuccessor(on_zero ? 0 : 1))) return false;
  for (const PHINode& phi : loop.getHeader()->phis()) {
    const int from = phi.getBasicBlockIndex(loop.getLoopLatch());
    if (from >= 0 && phi.getIncomingValue(static_cast<unsigned>(from)) == rest &&
        match(rest, m_c_And(m_Specific(&phi), m_Add(m_Specific(&phi), m_AllOnes()))))
      return true;
  }
  return false;
}

/// Whether this is the loop over blocks, whose routine for the next block is a safepoint.
bool asks_for_blocks(const Loop& loop) {
  const auto asks = [](const BasicBlock* block) {
    return block && any_of(*block, [](const Instruction& inst) {
             const auto* call = dyn_cast<CallInst>(&inst);
             const Function* callee = call ? call->getCalledFunction() : nullptr;
             return callee && callee->getName().starts_with("cucpu_rt_next_");
           });
  };
  return asks(loop.getHeader()) || asks(loop.getLoopLatch());
}

/// Where the last edges of cycles start that may run for long. Cycles need not be loops of LLVM:
/// full code may enter a loop of masked code in its middle.
SmallSetVector<BasicBlock*, 8> ends_of_long_cycles(Function& function) {
  const auto edges = back_edges(function);
  if (edges.empty()) return {};
  DominatorTree dominators{function};
  LoopInfo loops{dominators};
  TargetLibraryInfoImpl library{Triple{function.getParent()->getTargetTriple()}};
  TargetLibraryInfo info{library};
  AssumptionCache assumptions{function};
  ScalarEvolution evolution{function, info, assumptions, dominators, loops};
  constexpr std::size_t kMany = 200;  // trip counts are expensive in functions with many loops
  const bool few = loops.getLoopsInPreorder().size() <= kMany;
  const auto is_short = [&](const Loop& loop) {
    if (asks_for_blocks(loop) || findOptionMDForLoop(&loop, simt::kShortLoop) ||
        goes_over_bits(loop))
      return true;
    constexpr unsigned kShort = 4096;
    const unsigned count = few ? evolution.getSmallConstantMaxTripCount(&loop) : 0;
    return count != 0 && count <= kShort;
  };
  SmallSetVector<BasicBlock*, 8> ends;
  for (const Edge& edge : edges)
    if (const Loop* const loop = loop_of(edge, loops); !loop || !is_short(*loop))
      ends.insert(edge.first);
  return ends;
}

}  // namespace

void insert_safepoint_polls(Module& module, Function* entry, bool entry_is_fiber) {
  LLVMContext& context = module.getContext();
  const bool counted = safepoints::are_counted();
  FunctionCallee cancelled = module.getOrInsertFunction(
      counted ? "cucpu_rt_poll" : "cucpu_rt_cancelled", Type::getVoidTy(context));
  if (auto* callee = dyn_cast<Function>(cancelled.getCallee())) {
    if (!counted) callee->setDoesNotReturn();
    callee->setDoesNotThrow();
    callee->addFnAttr(Attribute::Cold);
  }
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    const auto ends = ends_of_long_cycles(function);
    if (ends.empty()) continue;
    IRBuilder<> b{&function.getEntryBlock(),
                  function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca()};
    Value* block = nullptr;
    if (&function == entry && !entry_is_fiber) {
      block = function.getArg(0);
    } else {
      block = b.CreateLoad(b.getPtrTy(),
                           &function == entry ? function.getArg(0) : current_thread(b, module));
    }
    Value* const flag = b.CreateLoad(
        b.getPtrTy(),
        b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), block, offsetof(BlockContext, cancel)));
    for (BasicBlock* end : ends) {
      Instruction* terminator = end->getTerminator();
      b.SetInsertPoint(terminator);
      LoadInst* state = b.CreateAlignedLoad(b.getInt32Ty(), flag, Align(4));
      state->setAtomic(AtomicOrdering::Monotonic);
      Value* stop = b.CreateICmpNE(state, b.getInt32(0));
      Instruction* then =
          SplitBlockAndInsertIfThen(stop, terminator->getIterator(), !counted,
                                    MDBuilder{context}.createBranchWeights(1, 1 << 20));
      b.SetInsertPoint(then);
      auto* call = b.CreateCall(cancelled);
      if (!counted) call->setDoesNotReturn();
      if (DISubprogram* scope = function.getSubprogram())
        call->setDebugLoc(DILocation::get(context, 0, 0, scope));
    }
  }
}

}  // namespace cucpu
