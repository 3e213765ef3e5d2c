// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/poison_flags.hpp: which poison-generating flags the shape analysis may trust.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu::simt {

/// Requires: no later pass moves instructions to other blocks.
/// Guarantees: a poison-generating flag (nsw, nuw, disjoint, nneg, exact) of an integer instruction
/// holds for every thread that executes the instruction. LLVM keeps a flag when it speculates an
/// instruction, or derives it from uses of the result: a select hides the poison of the threads for
/// which it does not hold. The shape analysis considers all lanes of a group.
void rederive_poison_flags(llvm::Function& thread);

}  // namespace cucpu::simt
