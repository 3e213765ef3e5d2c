// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/stack_size.hpp: the stack that generated code needs.
#pragma once

#include <cstdint>

namespace llvm {
class Module;
}

namespace cucpu {

/// An upper estimate in bytes: allocas, spills of vectors, and room for runtime routines. In code
/// that is not optimized every vector is spilled (`optimized` false).
std::uint32_t estimate_stack_bytes(const llvm::Module&, bool optimized);

/// Requires: nothing.
/// Guarantees: frames of all functions touch every page they extend over, so that a frame larger
/// than the guard page cannot skip it.
void probe_stacks(llvm::Module&);

}  // namespace cucpu
