// cpu/engine/runtime/table.hpp: the row type alone; routines.cpp must not see the routines' real
// signatures.
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
