// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/crash_recovery.hpp: runs code that may crash (the compiler) and turns a crash into
// an exception.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace cucpu {

/// The work crashed. `what()` is the signal, "stack overflow", or the reason given to
/// raise_crash().
class Crashed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `work` on a thread of its own with a large stack, and waits. Exceptions of the work are
/// rethrown. A fault, an abort or a stack overflow throws Crashed; the thread is then parked for
/// ever with all it holds (locks of the allocator included), so that no other code sees
/// inconsistent objects. Work that leaves through the functions below runs no destructors, and its
/// thread ends.
void run_with_crash_recovery(const std::function<void()>& work);

/// Inside work: ends it with Crashed, for libraries whose fatal error handlers must not return.
/// Returns outside of work.
void raise_crash(const char* reason) noexcept;

/// Inside work: ends it with std::bad_alloc. Returns outside of work.
void raise_out_of_memory() noexcept;

/// For the signal handler: ends the work that this thread runs. Returns if there is none.
void recover_from_crash_signal(int signal, const void* address) noexcept;

}  // namespace cucpu
