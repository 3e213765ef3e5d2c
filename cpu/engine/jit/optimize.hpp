// cpu/engine/jit/optimize.hpp: LLVM's passes, and code generation to an object in memory.
#pragma once

#include <llvm/IR/PassManager.h>

#include <functional>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace cucpu {

/// Runs passes with all analyses at hand. Names of C library functions mean nothing special: a
/// device function may be called `sin`.
void run_module_passes(llvm::Module&, llvm::TargetMachine*,
                       const std::function<void(llvm::ModulePassManager&)>& add);

/// The -O<level> pipeline, level 0..2.
void optimize_module(llvm::Module&, llvm::TargetMachine*, int level);

/// Makes atomic sums of floats give a GPU's bits (float_atomics.cpp). After all other passes.
void expand_float_atomics(llvm::Module&);

std::string emit_object(llvm::Module&, llvm::TargetMachine*);
std::string emit_assembly(llvm::Module&, llvm::TargetMachine*);

/// Throws std::runtime_error with the verifier's words when the module is broken; `stage` names who
/// broke it.
void verify(llvm::Module&, const char* stage);

}  // namespace cucpu
