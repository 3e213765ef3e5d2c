// SPDX-License-Identifier: Apache-2.0
// state.hpp: state of the loaded driver that error messages use.
#pragma once

#include <atomic>
#include <string>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Name of the missing function whose stub this thread called last; null if the last error came
/// from the driver.
extern thread_local const char* missing_function;

/// Process id of the process that loaded the driver; differs from getpid() in a forked child.
extern std::atomic<int> loader_pid;

/// The CPU device's report about the last kernel fault; empty on a GPU.
std::string last_fault_report();

/// Called when an error with this code reaches the user: later errors of the same fault refer to
/// it. Not called for errors that are dropped in destructors.
CUCORE_EXPORT void fault_was_raised(int code) noexcept;
/// Called when a context is reset or destroyed: the next fault is a new one, not a repetition.
void clear_first_fault() noexcept;

}  // namespace cucore::detail
