// SPDX-License-Identifier: Apache-2.0
// core/device_code.hpp: cubins of NVRTC and nvJitLink on the CPU device. Programs request a cubin
// for "sm_90". The CPU device cannot run its machine code, so the cubin also contains the PTX
// (cucore/container.hpp). cuda.bindings, the preloaded library of `cucore run --cpu` and the pytest
// plugin replace the libraries' functions with these.
#pragma once

#include <cstddef>
#include <string_view>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Returns the replacement for the function of NVRTC or nvJitLink at `address`, or null if it has
/// none. The replacements return containers as cubins on the CPU device, and the library's own
/// cubins on a GPU. Names of nvJitLink's functions may have a version suffix
/// (__nvJitLinkCreate_13_0).
CUCORE_EXPORT void* device_code_in_place_of(std::string_view function, void* address);

/// Returns the library's own function if `address` is a replacement.
CUCORE_EXPORT void* without_replacement(void* address);

/// Installs the replacements in the symbol table of a loaded library, so that all later symbol
/// lookups find them. Returns the number of symbols that were changed. Idempotent.
CUCORE_EXPORT std::size_t replace_in_symbol_table(void* library);

}  // namespace cucore::detail

extern "C" {
/// C versions for callers without C++ (the preloaded library and ctypes). Return `address` itself
/// if the function has no replacement.
CUCORE_EXPORT void* cucore_in_place_of(const char* function, void* address) noexcept;
CUCORE_EXPORT std::size_t cucore_replace_in_symbol_table(void* library) noexcept;
}
