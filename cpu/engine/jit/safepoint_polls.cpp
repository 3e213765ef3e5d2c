// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/safepoint_polls.cpp
#include "cpu/engine/jit/safepoint_polls.hpp"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

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
    DominatorTree dominators{function};
    LoopInfo loops{dominators};
    if (loops.empty()) continue;
    auto all = loops.getLoopsInPreorder();
    constexpr std::size_t kMany = 200;  // trip counts are expensive in functions with many loops
    const bool few = all.size() <= kMany;
    erase_if(all, [](const Loop* loop) {
      return asks_for_blocks(*loop) || findOptionMDForLoop(loop, simt::kShortLoop) ||
             goes_over_bits(*loop);
    });
    if (all.empty()) continue;
    TargetLibraryInfoImpl library{Triple{module.getTargetTriple()}};
    TargetLibraryInfo info{library};
    AssumptionCache assumptions{function};
    ScalarEvolution evolution{function, info, assumptions, dominators, loops};
    SmallVector<BasicBlock*, 8> latches;
    for (Loop* loop : all) {
      constexpr unsigned kShort = 4096;
      const unsigned count = few ? evolution.getSmallConstantMaxTripCount(loop) : 0;
      if (count != 0 && count <= kShort) continue;
      SmallVector<BasicBlock*, 4> found;
      loop->getLoopLatches(found);
      latches.append(found);
    }
    if (latches.empty()) continue;
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
    for (BasicBlock* latch : latches) {
      Instruction* terminator = latch->getTerminator();
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
