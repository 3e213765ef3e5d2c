// cpu/engine/simt/optimize.cpp: LLVM's passes over block code.
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/JumpThreading.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopDeletion.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimpleLoopUnswitch.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

// A mistake of LLVM (instructions that never come to rest) must not end the process.
InstCombinePass combine() { return InstCombinePass{InstCombineOptions().setVerifyFixpoint(false)}; }

// No pass over loops: they know what values are over the whole function, and forget it at every
// change.
FunctionPassManager few() {
  FunctionPassManager passes;
  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  passes.addPass(EarlyCSEPass{});
  passes.addPass(SimplifyCFGPass{});
  passes.addPass(combine());
  passes.addPass(EarlyCSEPass{true});
  passes.addPass(SimplifyCFGPass{});
  passes.addPass(ADCEPass{});
  return passes;
}

SimplifyCFGPass simplify() {
  return SimplifyCFGPass{SimplifyCFGOptions().convertSwitchRangeToICmp(true)};
}

SimplifyCFGPass merge() {
  return SimplifyCFGPass{
      SimplifyCFGOptions().convertSwitchRangeToICmp(true).hoistCommonInsts(true).sinkCommonInsts(
          true)};
}

// What of -O2 changes block code: who wrote the PTX has optimised the thread's own code, it is
// vectors already, and there is one function. What is left is to clean up behind the vectorizer.
// Passes that changed nothing that counts in the benchmarks' kernels are not here: for a short
// kernel half of the time went into them.
FunctionPassManager first() {
  FunctionPassManager passes;
  passes.addPass(SimplifyCFGPass{});
  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  passes.addPass(EarlyCSEPass{true});
  passes.addPass(simplify());
  passes.addPass(combine());
  LoopPassManager loops;
  loops.addPass(LoopRotatePass{});
  loops.addPass(LICMPass{LICMOptions{}});
  loops.addPass(LoopDeletionPass{});  // over groups, in which nothing happens
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(loops), true));
  return passes;
}

FunctionPassManager count_loops() {
  FunctionPassManager passes;
  passes.addPass(simplify());
  passes.addPass(combine());
  LoopPassManager loops;
  loops.addPass(IndVarSimplifyPass{});
  loops.addPass(SimpleLoopUnswitchPass{});
  loops.addPass(LoopFullUnrollPass{2});
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(loops)));
  return passes;
}

FunctionPassManager second() {
  FunctionPassManager passes;
  passes.addPass(GVNPass{});
  passes.addPass(JumpThreadingPass{});
  passes.addPass(DSEPass{});
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass{LICMOptions{}}, true));
  passes.addPass(merge());
  passes.addPass(combine());
  return passes;
}

FunctionPassManager after_unrolling() {
  FunctionPassManager passes;
  passes.addPass(SROAPass{SROAOptions::PreserveCFG});
  passes.addPass(combine());
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass{LICMOptions{}}, true));
  passes.addPass(merge());
  return passes;
}

/// Whether there are loops besides those over groups and blocks, which are what they are to be.
bool has_loops(const LoopInfo& loops) {
  return any_of(loops.getLoopsInPreorder(), [](const Loop* loop) {
    return !findOptionMDForLoop(loop, "llvm.loop.unroll.disable");
  });
}

/// Without what loops are brought into their usual form with.
std::size_t size_of(Function& function) {
  return static_cast<std::size_t>(count_if(instructions(function), [](const Instruction& inst) {
    return !isa<PHINode>(inst) && !inst.isTerminator();
  }));
}

}  // namespace

void optimize(Function& block, TargetMachine* target, bool lean) {
  Analyses analyses{target};
  const auto run = [&](auto passes) {
    analyses.functions.invalidate(block, passes.run(block, analyses.functions));
  };
  if (lean) return run(few());
  run(first());
  const bool loops = has_loops(analyses.functions.getResult<LoopAnalysis>(block));
  if (loops) run(count_loops());
  run(second());
  if (!loops) return;
  const std::size_t before = size_of(block);
  run(LoopUnrollPass{LoopUnrollOptions{2}});
  if (size_of(block) != before) run(after_unrolling());
}

}  // namespace cucpu::simt
