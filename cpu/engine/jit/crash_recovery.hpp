// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/crash_recovery.hpp: fatal errors of LLVM as exceptions; LLVM would end the
// process.
#pragma once

#include <functional>

namespace cucpu {

/// Runs work that uses LLVM inside run_with_crash_recovery() (run/crash_recovery.hpp). A fatal
/// error of LLVM is thrown as Crashed. A failed allocation, in LLVM or in this project, is thrown
/// as std::bad_alloc; the work is then abandoned without running destructors, because objects of
/// LLVM are in an inconsistent state. So the work must not publish what it creates before it is
/// complete.
void with_crash_recovery(const std::function<void()>& work);

}  // namespace cucpu
