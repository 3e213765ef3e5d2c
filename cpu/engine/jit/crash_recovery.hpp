// cpu/engine/jit/crash_recovery.hpp: LLVM ends the process where it cannot go on; here that is an
// exception.
#pragma once

#include <functional>

namespace cucpu {

/// Runs work that uses LLVM as run_with_crash_recovery() does. A fatal error of LLVM is Crashed.
/// Memory that cannot be had, by LLVM or by us, is std::bad_alloc: the work is left there and then,
/// without destructors (LLVM's objects are not whole any more), so what it made must be its own
/// until it is done.
void with_crash_recovery(const std::function<void()>& work);

}  // namespace cucpu
