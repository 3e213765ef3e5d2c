// cpu/engine/simt/analyses.hpp: LLVM's pass builder and its four managers of analyses, wired to
// each other: what passes over a function or a module are run with.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Passes/PassBuilder.h>

namespace cucpu::simt {

struct Analyses {
  /// library: which functions of C the code may call; none: those LLVM takes for granted. It must
  /// live as long as this.
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

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
};

}  // namespace cucpu::simt
