// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/table.hpp: the table of routines that generated code may call. Apart from the
// declarations of the routines: routines.cpp must not see their real signatures.
#pragma once

#include <span>

namespace cucpu {
struct Routine {
  const char* name;
  const void* address;
};

/// routines.def, and the functions LLVM itself calls (memcpy, libm, 128-bit division).
std::span<const Routine> routines();

}  // namespace cucpu
