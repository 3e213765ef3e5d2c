// SPDX-License-Identifier: Apache-2.0
// library.hpp: functions of the libraries that pathfinder locates (NVRTC, nvJitLink, NVVM,
// nvFatbin, NVML, cuFile).
#pragma once
#include "rows.hpp"

#define SLOT(name) 0

namespace cucore::bindings {

/// Returns the address of a function; null if the library does not export it. Loads the library on
/// first use. Throws if the library is not found.
void* library_symbol(const char* library, const char* symbol);

}  // namespace cucore::bindings
