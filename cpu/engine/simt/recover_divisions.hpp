// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/recover_divisions.hpp: multiplications that divide by a constant.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// NVRTC writes `i / 18` as the upper half of a product: `(i * 954437177 >> 34) + (i < 0)`. As a
/// division, the quotient of neighbouring threads is known to have one or two values.
///
/// Requires: thread code after instcombine.
/// Guarantees: products that are quotients by a constant for every dividend of 32 bits (or for all
/// that known bits allow) are `sdiv` and `udiv`; code generation writes them as products again.
void recover_divisions(llvm::Function& thread);

}  // namespace cucpu::simt
