// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/signals.hpp: the handlers of fault signals. A fault belongs to a queued access
// (try_access.hpp), to the engine, or to the handler that was installed before.
#pragma once

#include <signal.h>

#include <cstdint>

namespace cucpu {

/// Installs the signal handlers, again if they were replaced. Whether they were is tested at most
/// every 20 ms unless `force` is set.
void ensure_fault_handlers(bool force = false);

/// The address of the instruction that a signal interrupted.
std::uintptr_t program_counter(void* context) noexcept;

/// Called in the signal handler after try_access.hpp and before previous handlers. True: the fault
/// was handled, and the thread continues with `context`.
using FaultHandler = bool (*)(int signal, siginfo_t* info, void* context);
void set_fault_handler(FaultHandler handler) noexcept;

}  // namespace cucpu
