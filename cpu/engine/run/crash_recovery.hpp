// cpu/engine/run/crash_recovery.hpp: runs work that may crash (the compiler) so that a crash is an
// exception of the caller.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace cucpu {

/// The work did not end by itself. `what()` says how: a signal, the stack, or the reason given to
/// raise_crash().
class Crashed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `work` on a thread of its own with a large stack, and waits. Its exceptions come out here.
/// A fault, an abort or a stack overflow in it is Crashed: its thread is then left standing for
/// ever with what it held (locks of an allocator included), so that nobody else trips over it. That
/// costs memory, not the process. Work that leaves by the functions below does so without
/// destructors; its thread ends.
void run_with_crash_recovery(const std::function<void()>& work);

/// Inside work: leaves it, for libraries whose fatal errors must not return. Does nothing
/// elsewhere.
void raise_crash(const char* reason) noexcept;

/// The same for want of memory: run_with_crash_recovery() throws std::bad_alloc.
void raise_out_of_memory() noexcept;

/// For the signal handler: leaves the work when this thread is in any.
void recover_from_crash_signal(int signal, const void* address) noexcept;

}  // namespace cucpu
