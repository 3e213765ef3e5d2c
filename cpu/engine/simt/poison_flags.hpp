// cpu/engine/simt/poison_flags.hpp: which poison-generating flags the shape analysis may trust.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu::simt {

/// Drops the poison-generating flags (nsw, nuw, disjoint, nneg, exact) of integer instructions and
/// sets again those that hold for every thread that reaches the instruction.
///
/// Requires: no later pass moves instructions to other blocks. LLVM keeps such a flag when it
/// speculates an instruction, or derives it from how the result is used: a select hides the poison
/// of the threads for which it does not hold. The shape analysis looks at all lanes of a group, so
/// for it a flag must hold wherever the instruction is executed.
void rederive_poison_flags(llvm::Function& thread);

}  // namespace cucpu::simt
