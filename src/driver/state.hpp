// state.hpp: what error texts need to know of the loaded driver.
#pragma once

#include <atomic>
#include <string>

#include "cucore/export.hpp"

namespace cucore::detail {

/// The function a stand-in was called for, on this thread; null when the last failure was a real
/// answer.
extern thread_local const char* missing_function;

/// The process that loaded the driver; a forked child has another number.
extern std::atomic<int> loaded_by;

/// The CPU device's report about the last kernel fault; empty on a GPU.
std::string last_fault_report();

/// An error with this code reaches the user: from now on, errors of the same fault refer to it.
/// Errors that are dropped (in destructors) are not reported here.
CUCORE_EXPORT void fault_was_raised(int code) noexcept;
/// A context was reset or destroyed: the next fault is a new one, not the echo of the last.
void forget_first_fault() noexcept;

}  // namespace cucore::detail
