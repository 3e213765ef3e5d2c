// cpu/engine/run/signals.hpp: the handlers of fault signals, and whom a fault belongs to: a copy of
// the driver (try_access.hpp), the engine, or whoever had a handler before us.
#pragma once

#include <signal.h>

#include <cstdint>

namespace cucpu {

/// Installs the signal handlers (once, and again when someone has replaced them). `look`: see
/// whether they are there in any case.
void ensure_fault_handlers(bool look = false);

/// Where the code was that a signal interrupted.
std::uintptr_t program_counter(void* context) noexcept;

/// Hears of a fault after try_access.hpp and before the handlers that were there: true when it was
/// its own and the thread goes on by `context`. Runs in the signal handler.
using FaultHandler = bool (*)(int signal, siginfo_t* info, void* context);
void set_fault_handler(FaultHandler handler) noexcept;

}  // namespace cucpu
