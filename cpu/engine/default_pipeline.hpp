// SPDX-License-Identifier: Apache-2.0
// cpu/engine/default_pipeline.hpp: LLVM's optimizations for code of the scalar path.
#pragma once

#include <llvm/IR/PassManager.h>

namespace cucpu {

/// The passes that LLVM's default pipelines run for a module on its own. Those of PassBuilder also
/// contain passes for profiles, OpenMP, coroutines and whole programs, which find nothing in
/// kernels and are a seventh of the library. `level` is 0 to 2, as in -O2.
llvm::ModulePassManager default_passes(int level);

}  // namespace cucpu
