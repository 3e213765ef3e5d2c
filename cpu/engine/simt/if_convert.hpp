// cpu/engine/simt/if_convert.hpp: short branches around a load become a choice between values.
#pragma once

#include <llvm/IR/Function.h>

namespace cucpu::simt {

/// `a == 3 || (a == 2 && cell[i])`: LLVM leaves branches there, for the load might fault, and lanes
/// part at every one of them. It cannot where the thread has surely touched memory below and above
/// it, less than a page apart (the middle of a stencil): it lies on a page of one of the two. The
/// code between such a branch and where its ways meet again, if that is short and does nothing but
/// compute, is then done by all, and selects take what is right. True: something was changed.
bool if_convert(llvm::Function& thread);

}  // namespace cucpu::simt
