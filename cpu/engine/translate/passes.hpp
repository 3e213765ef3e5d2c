// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/passes.hpp: passes over the thread code of one function, in the order in
// which pipeline.cpp runs them.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu::ir {

/// Metadata of a select that flushes subnormals to zero and is its third operand otherwise; and of
/// a value that is never subnormal.
inline constexpr char kFlush[] = "cucpu.flush", kFlushed[] = "cucpu.flushed";

/// Metadata of an alloca that debug information names: it stays in memory.
inline constexpr char kVariable[] = "cucpu.variable";

/// Requires: no unreachable blocks.
/// Guarantees: PTX registers, which the translator writes as allocas, are SSA values; in debug mode
/// those that hold no variable of the source.
void promote_registers(llvm::Function& f);

/// Requires: SSA form.
/// Guarantees: no call of cucpu.fma.down(x, y, z, r) is left, where r is x * y + z rounded down.
/// Where x is in [0, 1] and the constants y and z keep the sum between 2^23 and 2^24, whose floats
/// are the integers, one comparison corrects the nearest sum; elsewhere the value is r. Every expf
/// has one.
void lower_rounded_down_fma(llvm::Function& f);

/// Requires: SSA form.
/// Guarantees: values that are never subnormal (flushed before, converted from integers, constants)
/// are not flushed again. The operands of most .ftz instructions are results of others.
void drop_redundant_flushes(llvm::Function& f);

/// Requires: SSA form.
/// Guarantees: inttoptr of arithmetic on the address of one variable is a getelementptr of that
/// variable, which SROA and alias analysis understand.
void recover_geps(llvm::Function& f);

}  // namespace cucpu::ir
