// SPDX-License-Identifier: Apache-2.0
// cpu/engine/llvm_passes.hpp: passes of LLVM that pipeline.cpp runs, with their options. The names
// are those of `opt -passes`.
#pragma once

#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/CorrelatedValuePropagation.h>
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
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Scalar/SimpleLoopUnswitch.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/BreakCriticalEdges.h>
#include <llvm/Transforms/Utils/FixIrreducible.h>
#include <llvm/Transforms/Utils/LCSSA.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LowerSwitch.h>

namespace cucpu::llvm_passes {

inline auto adce() { return llvm::ADCEPass{}; }
inline auto always_inline() { return llvm::AlwaysInlinerPass{false}; }
inline auto break_crit_edges() { return llvm::BreakCriticalEdgesPass{}; }
inline auto correlated_propagation() { return llvm::CorrelatedValuePropagationPass{}; }
inline auto dse() { return llvm::DSEPass{}; }
inline auto early_cse() { return llvm::EarlyCSEPass{}; }
inline auto early_cse_memssa() { return llvm::EarlyCSEPass{true}; }
inline auto fix_irreducible() { return llvm::FixIrreduciblePass{}; }
inline auto globaldce() { return llvm::GlobalDCEPass{}; }
inline auto gvn() { return llvm::GVNPass{}; }
inline auto jump_threading() { return llvm::JumpThreadingPass{}; }
inline auto lcssa() { return llvm::LCSSAPass{}; }
inline auto loop_simplify() { return llvm::LoopSimplifyPass{}; }
inline auto loop_unroll() { return llvm::LoopUnrollPass{llvm::LoopUnrollOptions{2}}; }
inline auto lower_switch() { return llvm::LowerSwitchPass{}; }
inline auto sroa() { return llvm::SROAPass{llvm::SROAOptions::ModifyCFG}; }
inline auto sroa_preserve_cfg() { return llvm::SROAPass{llvm::SROAOptions::PreserveCFG}; }

/// Without verification of the fixpoint, which ends the process.
inline auto instcombine() {
  return llvm::InstCombinePass{llvm::InstCombineOptions().setVerifyFixpoint(false)};
}

inline auto scalarizer() {
  llvm::ScalarizerPassOptions options;
  options.ScalarizeLoadStore = true;
  return llvm::ScalarizerPass{options};
}

inline auto simplifycfg() { return llvm::SimplifyCFGPass{}; }
inline auto simplifycfg_switch_to_icmp() {
  return llvm::SimplifyCFGPass{llvm::SimplifyCFGOptions().convertSwitchRangeToICmp(true)};
}
inline auto simplifycfg_merge() {
  return llvm::SimplifyCFGPass{llvm::SimplifyCFGOptions()
                                   .convertSwitchRangeToICmp(true)
                                   .hoistCommonInsts(true)
                                   .sinkCommonInsts(true)};
}

inline auto licm() {
  return llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass{llvm::LICMOptions{}}, true);
}

/// Loop deletion removes loops over groups that have become empty.
inline auto rotate_licm_delete() {
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass{});
  loops.addPass(llvm::LICMPass{llvm::LICMOptions{}});
  loops.addPass(llvm::LoopDeletionPass{});
  return llvm::createFunctionToLoopPassAdaptor(std::move(loops), true);
}

inline auto indvars_unswitch_unroll_full() {
  llvm::LoopPassManager loops;
  loops.addPass(llvm::IndVarSimplifyPass{});
  loops.addPass(llvm::SimpleLoopUnswitchPass{});
  loops.addPass(llvm::LoopFullUnrollPass{2});
  return llvm::createFunctionToLoopPassAdaptor(std::move(loops));
}

}  // namespace cucpu::llvm_passes
