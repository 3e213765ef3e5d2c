// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/float_atomics.hpp: atomic sums of f32 and f64 with the bits of a GPU.
#pragma once

namespace llvm {
class IRBuilderBase;
class Module;
class Value;
}  // namespace llvm

namespace cucpu {

/// old + x as an atomic operation of a GPU computes it, in global or in shared memory.
llvm::Value* float_sum(llvm::IRBuilderBase&, llvm::Value* old, llvm::Value* x, bool shared);

/// Requires: no later pass of LLVM.
/// Guarantees: every `atomicrmw fadd` of f32 and f64 is a compare-and-swap loop around float_sum().
void expand_float_atomics(llvm::Module&);

}  // namespace cucpu
