// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/analyses.hpp: LLVM's pass builder and its four analysis managers, registered with
// each other.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Passes/PassBuilder.h>

namespace cucpu::simt {

struct Analyses {
  /// `library`: the functions of the C library that LLVM may recognize and call; null: its default.
  /// It must outlive this object.
  explicit Analyses(llvm::TargetMachine* target = nullptr,
                    const llvm::TargetLibraryInfoImpl* library = nullptr)
      : builder{target} {
    if (library)
      functions.registerPass([library] { return llvm::TargetLibraryAnalysis{*library}; });
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
  }
  Analyses(const Analyses&) = delete;
  Analyses& operator=(const Analyses&) = delete;

  /// Runs one pass and drops the results of analyses that it invalidated, as LLVM's pass managers
  /// do.
  template <typename Pass>
  void run(llvm::Function& function, Pass pass) {
    functions.invalidate(function, pass.run(function, functions));
  }
  template <typename Pass>
  void run(llvm::Module& module, Pass pass) {
    modules.invalidate(module, pass.run(module, modules));
  }
  /// Drops all results, after code was changed without LLVM's pass managers.
  void clear() {
    modules.clear();
    sccs.clear();
    functions.clear();
    loops.clear();
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
};

}  // namespace cucpu::simt
