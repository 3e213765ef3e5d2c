// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/instrument.hpp: check mode (CUCORE_CHECK): kernels report accesses before they
// execute them.
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Requires: inlined calls; local variables not yet promoted to registers.
/// Guarantees: every function reports its .local variables when it is entered, which keeps them in
/// memory.
void instrument_locals(llvm::Module&);

/// Requires: local variables promoted to registers.
/// Guarantees: a call of cucpu_rt_check precedes every memory access of the PTX, and similar calls
/// precede fences and runtime routines that access memory.
void instrument(llvm::Module&);

}  // namespace cucpu
