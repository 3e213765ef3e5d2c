// cpu/engine/jit/instrument.hpp: check mode (CUCORE_CHECK): kernels say what they touch before they
// touch it.
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Lets every .local variable announce itself when its function is entered. After inlining, before
/// promotion: what is announced stays in memory.
void instrument_locals(llvm::Module&);

/// Puts a call of cucpu_rt_check before every access that PTX asked for, and the like before fences
/// and routines that touch memory. After promotion.
void instrument(llvm::Module&);

}  // namespace cucpu
