// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonicalize.hpp: the canonical NaN of f32 and f16.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu {

/// Requires: thread code in SSA form (promote_registers); no later pass of the thread-code stage,
/// because the result depends on the uses of every value.
/// Guarantees: a NaN that f32 or f16 arithmetic produced has the bits of a GPU (0x7fffffff, 0x7fff)
/// wherever its bits are observed: stores, integer registers, calls. Loaded bits stay as they are.
void canonicalize_nans(llvm::Function& thread);

}  // namespace cucpu
