// cpu/engine/jit/optimize.hpp: LLVM's passes, and code generation to an object in memory.
#pragma once

#include <llvm/IR/PassManager.h>

#include <functional>
#include <string>

namespace llvm {
class IRBuilderBase;
class TargetMachine;
}  // namespace llvm

namespace cucpu {

/// Runs passes with all analyses at hand. Names of C library functions mean nothing special: a
/// device function may be called `sin`.
void run_module_passes(llvm::Module&, llvm::TargetMachine*,
                       const std::function<void(llvm::ModulePassManager&)>& add);

/// The -O<level> pipeline, level 0..2.
void optimize_module(llvm::Module&, llvm::TargetMachine*, int level);

/// old + x as an atomic operation of a GPU makes it, in global or in shared memory.
llvm::Value* float_sum(llvm::IRBuilderBase&, llvm::Value* old, llvm::Value* x, bool shared);

/// Does atomics of block code that may come later for several blocks at once
/// (deferred_atomics.cpp).
void combine_deferred_atomics(llvm::Function&);

/// Makes atomic sums of floats give a GPU's bits (float_atomics.cpp). After all other passes.
void expand_float_atomics(llvm::Module&);

std::string emit_assembly(llvm::Module&, llvm::TargetMachine*);

/// Throws std::runtime_error with the verifier's words when the module is broken; `stage` names who
/// broke it.
void verify(llvm::Module&, const char* stage);

}  // namespace cucpu
