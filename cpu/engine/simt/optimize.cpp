// cpu/engine/simt/optimize.cpp: LLVM's passes over block code.
#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Vectorize/VectorCombine.h>

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

// -O2 without what works on whole modules (there is one function) and without vectorizers (it is
// vectors already).
FunctionPassManager usual(PassBuilder& builder) {
  FunctionPassManager passes;
  passes.addPass(SimplifyCFGPass{});
  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  passes.addPass(EarlyCSEPass{});
  passes.addPass(
      builder.buildFunctionSimplificationPipeline(OptimizationLevel::O2, ThinOrFullLTOPhase::None));
  passes.addPass(VectorCombinePass{});
  passes.addPass(combine());
  passes.addPass(LoopUnrollPass{LoopUnrollOptions{2}});
  passes.addPass(SROAPass{SROAOptions::PreserveCFG});
  passes.addPass(combine());
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass{LICMOptions{}}, true));
  passes.addPass(SimplifyCFGPass{
      SimplifyCFGOptions().convertSwitchRangeToICmp(true).hoistCommonInsts(true).sinkCommonInsts(
          true)});
  return passes;
}

}  // namespace

void optimize(Function& block, TargetMachine* target, bool lean) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.LoopInterleaving = false;
  Analyses analyses{target, tuning};
  (lean ? few() : usual(analyses.builder)).run(block, analyses.functions);
}

}  // namespace cucpu::simt
