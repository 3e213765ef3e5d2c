// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/instrument.hpp: check mode (CUCORE_CHECK): kernels report accesses before they
// execute them.
#pragma once

#include <string>

namespace llvm {
class Module;
}

namespace cucpu {

/// Requires: inlined calls.
/// Returns why vector code cannot test these check::Kinds, or an empty string.
std::string find_unsupported_by_lane_checks(llvm::Module&, unsigned kinds);

/// Requires: inlined calls; local variables not yet promoted to registers.
/// Guarantees: every function reports its .local variables when it is entered, which keeps them in
/// memory.
void instrument_locals(llvm::Module&);

/// Requires: local variables promoted to registers.
/// Guarantees: a call of cucpu_rt_check precedes every memory access of the PTX, and similar calls
/// precede fences and runtime routines that access memory. With `lanes`, markers do, which the
/// vectorizer replaces (simt/check_emitter.hpp): cucpu.check.access(address, bytes, flags, value,
/// root, number of the access, number of its CheckRange, offset and bytes of its .shared variable,
/// the parameters that the kernel writes through)
/// and cucpu.check.fence(). Markers of .shared variables (TranslateOptions) are replaced.
void instrument(llvm::Module&, bool lanes);

}  // namespace cucpu
