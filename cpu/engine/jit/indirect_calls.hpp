// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/indirect_calls.hpp: calls without stubs of the linker.
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Requires: nothing.
/// Guarantees: calls of functions that the module only declares load the address and call it. The
/// linker would put a stub between them, which has neither symbol nor unwind information: a
/// debugger that steps over the call stops in it (GDB on AArch64).
void call_through_pointers(llvm::Module&);

}  // namespace cucpu
