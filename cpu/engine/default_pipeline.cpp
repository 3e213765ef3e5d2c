// SPDX-License-Identifier: Apache-2.0
// cpu/engine/default_pipeline.cpp
#include "cpu/engine/default_pipeline.hpp"

#include <llvm/Analysis/InlineCost.h>
#include <llvm/Transforms/AggressiveInstCombine/AggressiveInstCombine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/ConstantMerge.h>
#include <llvm/Transforms/IPO/DeadArgumentElimination.h>
#include <llvm/Transforms/IPO/FunctionAttrs.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/IPO/GlobalOpt.h>
#include <llvm/Transforms/IPO/InferFunctionAttrs.h>
#include <llvm/Transforms/IPO/Inliner.h>
#include <llvm/Transforms/IPO/SCCP.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/AlignmentFromAssumptions.h>
#include <llvm/Transforms/Scalar/BDCE.h>
#include <llvm/Transforms/Scalar/ConstraintElimination.h>
#include <llvm/Transforms/Scalar/CorrelatedValuePropagation.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/DivRemPairs.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/Float2Int.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/InferAlignment.h>
#include <llvm/Transforms/Scalar/InstSimplifyPass.h>
#include <llvm/Transforms/Scalar/JumpThreading.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopDeletion.h>
#include <llvm/Transforms/Scalar/LoopDistribute.h>
#include <llvm/Transforms/Scalar/LoopIdiomRecognize.h>
#include <llvm/Transforms/Scalar/LoopInstSimplify.h>
#include <llvm/Transforms/Scalar/LoopLoadElimination.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/LoopSimplifyCFG.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/LowerConstantIntrinsics.h>
#include <llvm/Transforms/Scalar/LowerExpectIntrinsic.h>
#include <llvm/Transforms/Scalar/MemCpyOptimizer.h>
#include <llvm/Transforms/Scalar/MergedLoadStoreMotion.h>
#include <llvm/Transforms/Scalar/Reassociate.h>
#include <llvm/Transforms/Scalar/SCCP.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimpleLoopUnswitch.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Scalar/TailRecursionElimination.h>
#include <llvm/Transforms/Utils/InjectTLIMappings.h>
#include <llvm/Transforms/Utils/LibCallsShrinkWrap.h>
#include <llvm/Transforms/Vectorize/LoopVectorize.h>
#include <llvm/Transforms/Vectorize/VectorCombine.h>

#include <algorithm>
#include <utility>

namespace cucpu {
namespace {

using namespace llvm;

void add(ModulePassManager& to, FunctionPassManager passes) {
  to.addPass(createModuleToFunctionPassAdaptor(std::move(passes)));
}

/// Registers and branches as functions came from the translator.
FunctionPassManager early() {
  FunctionPassManager passes;
  passes.addPass(LowerExpectIntrinsicPass{});
  passes.addPass(SimplifyCFGPass{});
  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  passes.addPass(EarlyCSEPass{});
  return passes;
}

/// What constants that cross functions have made possible.
FunctionPassManager after_constants() {
  FunctionPassManager passes;
  passes.addPass(InstCombinePass{});
  passes.addPass(SimplifyCFGPass{SimplifyCFGOptions().convertSwitchRangeToICmp(true)});
  return passes;
}

/// Makes one function shorter. Level 1 does without what takes long for little.
FunctionPassManager simplification(int level) {
  const bool full = level > 1;
  FunctionPassManager passes;
  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  passes.addPass(EarlyCSEPass{true});
  if (full) {
    passes.addPass(JumpThreadingPass{});
    passes.addPass(CorrelatedValuePropagationPass{});
  }
  passes.addPass(SimplifyCFGPass{SimplifyCFGOptions().convertSwitchRangeToICmp(full)});
  passes.addPass(InstCombinePass{});
  if (full) passes.addPass(AggressiveInstCombinePass{});
  passes.addPass(LibCallsShrinkWrapPass{});
  if (full) passes.addPass(TailCallElimPass{});
  passes.addPass(SimplifyCFGPass{SimplifyCFGOptions().convertSwitchRangeToICmp(full)});
  passes.addPass(ReassociatePass{});
  if (full) passes.addPass(ConstraintEliminationPass{});

  LoopPassManager invariants;
  invariants.addPass(LoopInstSimplifyPass{});
  invariants.addPass(LoopSimplifyCFGPass{});
  LICMOptions hoist_only;
  hoist_only.AllowSpeculation = false;  // before rotation
  invariants.addPass(LICMPass{hoist_only});
  invariants.addPass(LoopRotatePass{true});
  invariants.addPass(LICMPass{LICMOptions{}});
  invariants.addPass(SimpleLoopUnswitchPass{});
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(invariants), /*UseMemorySSA=*/true,
                                                 /*UseBlockFrequencyInfo=*/true));
  passes.addPass(SimplifyCFGPass{SimplifyCFGOptions().convertSwitchRangeToICmp(full)});
  passes.addPass(InstCombinePass{});
  LoopPassManager counts;
  counts.addPass(LoopIdiomRecognizePass{});
  counts.addPass(IndVarSimplifyPass{});
  counts.addPass(LoopDeletionPass{});
  counts.addPass(LoopFullUnrollPass{level});
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(counts)));

  passes.addPass(SROAPass{SROAOptions::ModifyCFG});
  if (full) {
    passes.addPass(VectorCombinePass{/*TryEarlyFoldsOnly=*/true});
    passes.addPass(MergedLoadStoreMotionPass{});
    passes.addPass(GVNPass{});
  }
  passes.addPass(SCCPPass{});
  passes.addPass(BDCEPass{});
  passes.addPass(InstCombinePass{});
  if (full) {
    passes.addPass(JumpThreadingPass{});
    passes.addPass(CorrelatedValuePropagationPass{});
  }
  passes.addPass(ADCEPass{});
  passes.addPass(MemCpyOptPass{});
  if (full) {
    passes.addPass(DSEPass{});
    passes.addPass(createFunctionToLoopPassAdaptor(LICMPass{LICMOptions{}}, /*UseMemorySSA=*/true,
                                                   /*UseBlockFrequencyInfo=*/true));
  }
  passes.addPass(SimplifyCFGPass{
      SimplifyCFGOptions().convertSwitchRangeToICmp(full).hoistCommonInsts(full).sinkCommonInsts(
          full)});
  passes.addPass(InstCombinePass{});
  return passes;
}

/// Inlines from the leaves of the call graph up; a caller sees its callees simplified.
ModuleInlinerWrapperPass inlining(int level) {
  ModuleInlinerWrapperPass inliner{getInlineParams(static_cast<unsigned>(level), 0), true};
  CGSCCPassManager& functions = inliner.getPM();
  functions.addPass(PostOrderFunctionAttrsPass{});
  functions.addPass(
      createCGSCCToFunctionPassAdaptor(simplification(level), /*EagerlyInvalidate=*/true));
  functions.addPass(PostOrderFunctionAttrsPass{});
  return inliner;
}

/// Loops over several elements at a time, and what that leaves.
FunctionPassManager late(int level) {
  FunctionPassManager passes;
  passes.addPass(Float2IntPass{});
  passes.addPass(LowerConstantIntrinsicsPass{});
  LoopPassManager loops;
  loops.addPass(LoopRotatePass{true});
  loops.addPass(LoopDeletionPass{});
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(loops)));
  passes.addPass(LoopDistributePass{});
  passes.addPass(InjectTLIMappings{});
  passes.addPass(LoopVectorizePass{LoopVectorizeOptions{false, false}});
  passes.addPass(InferAlignmentPass{});
  passes.addPass(LoopLoadEliminationPass{});
  passes.addPass(InstCombinePass{});
  passes.addPass(SimplifyCFGPass{SimplifyCFGOptions()
                                     .forwardSwitchCondToPhi(true)
                                     .convertSwitchRangeToICmp(true)
                                     .convertSwitchToLookupTable(true)
                                     .needCanonicalLoops(false)
                                     .hoistCommonInsts(true)
                                     .sinkCommonInsts(true)});
  passes.addPass(VectorCombinePass{});
  passes.addPass(InstCombinePass{});
  passes.addPass(LoopUnrollPass{LoopUnrollOptions{level}});
  passes.addPass(SROAPass{SROAOptions::PreserveCFG});
  passes.addPass(InferAlignmentPass{});
  passes.addPass(InstCombinePass{});
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass{LICMOptions{}}, /*UseMemorySSA=*/true));
  passes.addPass(AlignmentFromAssumptionsPass{});
  passes.addPass(InstSimplifyPass{});
  passes.addPass(DivRemPairsPass{});
  passes.addPass(TailCallElimPass{});
  passes.addPass(SimplifyCFGPass{
      SimplifyCFGOptions().convertSwitchRangeToICmp(true).speculateUnpredictables(true)});
  return passes;
}

}  // namespace

ModulePassManager default_passes(int level) {
  ModulePassManager passes;
  if (level <= 0) {
    passes.addPass(AlwaysInlinerPass{false});
    return passes;
  }
  level = std::min(level, 2);
  passes.addPass(InferFunctionAttrsPass{});
  add(passes, early());
  passes.addPass(IPSCCPPass{});
  passes.addPass(GlobalOptPass{});
  add(passes, after_constants());
  passes.addPass(AlwaysInlinerPass{true});
  passes.addPass(inlining(level));
  passes.addPass(DeadArgumentEliminationPass{});
  passes.addPass(GlobalOptPass{});
  passes.addPass(GlobalDCEPass{});
  passes.addPass(ReversePostOrderFunctionAttrsPass{});
  add(passes, late(level));
  passes.addPass(GlobalDCEPass{});
  passes.addPass(ConstantMergePass{});
  return passes;
}

}  // namespace cucpu
