// SPDX-License-Identifier: Apache-2.0
// core/device_code.hpp: NVRTC's and nvJitLink's cubins on the CPU device. Programs request a cubin
// for "sm_90"; the CPU device cannot run its machine code, so the cubin also carries the PTX
// (cucore/container.hpp). cuda.bindings, the preloaded library of `cucore run --cpu` and the pytest
// plugin put these functions in place of the libraries' own.
#pragma once

#include <cstddef>
#include <string_view>

#include "cucore/export.hpp"

namespace cucore::detail {

/// The function to call instead of this one of NVRTC or nvJitLink, which is at `address`, or null.
/// On the CPU device the cubins they return are containers; with a GPU they are the library's. The
/// names of nvJitLink's functions may have a version (__nvJitLinkCreate_13_0).
CUCORE_EXPORT void* device_code_in_place_of(std::string_view function, void* address);

/// The library's own function, where `address` is that of a replacement.
CUCORE_EXPORT void* without_replacement(void* address);

/// Puts the replacements into the symbol table of a loaded library, so that everybody who looks a
/// function up from now on gets them. Returns how many were put there; nothing is done twice.
CUCORE_EXPORT std::size_t replace_in_symbol_table(void* library);

}  // namespace cucore::detail

extern "C" {
/// The same for callers without C++: the preloaded library and ctypes. The address itself where
/// nothing stands in for the function.
CUCORE_EXPORT void* cucore_in_place_of(const char* function, void* address) noexcept;
CUCORE_EXPORT std::size_t cucore_replace_in_symbol_table(void* library) noexcept;
}
