// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/extract.hpp: reduces a module to what one kernel, or one set of functions, needs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace cucpu {

/// Requires: thread code of a module, all functions external.
/// Guarantees: only `kernel` is external. Functions whose address is taken become declarations,
/// because a module has one copy of them (extract_functions); every other function is internal, and
/// alwaysinline unless it is recursive or too large. LLVM's always-inline and globaldce then remove
/// what the kernel does not reach. `keep_calls`: nothing is alwaysinline (debug mode).
void extract_kernel(llvm::Function& kernel, bool keep_calls = false);

/// Requires: thread code of a module, all functions external.
/// Guarantees: only the functions whose address is taken, and those that `also` names, are
/// external. Returns their names.
std::vector<std::string> extract_functions(llvm::Module&, std::span<const std::string> also);

}  // namespace cucpu
