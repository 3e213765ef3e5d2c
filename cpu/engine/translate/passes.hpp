// cpu/engine/translate/passes.hpp: what is done to a function after its statements have become
// instructions.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu::ir {

/// Metadata: a select that makes zeros of subnormal numbers, its third operand otherwise; a value
/// that is no subnormal number.
inline constexpr char kFlush[] = "cucpu.flush", kFlushed[] = "cucpu.flushed";

/// Register allocas become SSA values. Needs: no unreachable blocks.
void promote_registers(llvm::Function& f);

/// cucpu.fma.down(x, y, z, r), r being x * y + z rounded down: where x is in [0, 1] and the
/// constants y and z keep the sum between 2^23 and 2^24, whose floats are the integers, one
/// comparison tells whether the nearest one is above; else r. Every expf has one.
void choose_fma(llvm::Function& f);

/// A flush of what is surely no subnormal number (what was flushed before, integers, constants)
/// becomes that value: the operands of most .ftz instructions are results of others.
void drop_flushes(llvm::Function& f);

/// inttoptr of arithmetic on one variable's address becomes a getelementptr of that variable, so
/// that SROA and alias analysis see it.
void recover_roots(llvm::Function& f);

/// A NaN that arithmetic made gets the GPU's bits (0x7fffffff, 0x7fff) where its bits can be seen.
/// Last: it looks at uses.
void canonicalize_nans(llvm::Function& f);

}  // namespace cucpu::ir
