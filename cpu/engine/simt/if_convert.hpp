// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/if_convert.hpp: if-conversion of short branches around loads.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// Requires: thread code after clean-up.
/// Guarantees: a short branch without side effects whose loads cannot fault is straight-line code
/// with selects; other branches are unchanged. In `a == 3 || (a == 2 && cell[i])` LLVM keeps the
/// branches, because the load might fault, and lanes diverge at each. A load cannot fault where the
/// thread also accesses memory below and above it, less than a page apart (the center of a
/// stencil): it is on the page of one of the two. Returns whether something changed.
bool if_convert(llvm::Function& thread);

}  // namespace cucpu::simt
