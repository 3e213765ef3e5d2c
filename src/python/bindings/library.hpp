// SPDX-License-Identifier: Apache-2.0
// library.hpp: functions of libraries that pathfinder finds (NVRTC, nvJitLink, NVVM, nvFatbin,
// NVML, cuFile).
#pragma once
#include "rows.hpp"

#define SLOT(name) 0

namespace cucore::bindings {

/// Address of a function in a library that is loaded when first used; null when the library lacks
/// the function. Throws when the library is nowhere.
void* library_symbol(const char* library, const char* symbol);

}  // namespace cucore::bindings
