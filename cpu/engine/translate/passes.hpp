// cpu/engine/translate/passes.hpp: what is done to a function after its statements have become
// instructions.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu::ir {

/// Register allocas become SSA values. Needs: no unreachable blocks.
void promote_registers(llvm::Function& f);

/// cucpu.fma.down(x, y, z, r), r being x * y + z rounded down: where x is in [0, 1] and the
/// constants y and z keep the sum between 2^23 and 2^24, whose floats are the integers, one
/// comparison tells whether the nearest one is above; else r. Every expf has one.
void choose_fma(llvm::Function& f);

/// inttoptr of arithmetic on one variable's address becomes a getelementptr of that variable, so
/// that SROA and alias analysis see it.
void recover_roots(llvm::Function& f);

/// A NaN that arithmetic made gets the GPU's bits (0x7fffffff, 0x7fff) where its bits can be seen.
/// Last: it looks at uses.
void canonicalize_nans(llvm::Function& f);

}  // namespace cucpu::ir
