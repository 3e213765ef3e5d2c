// state.hpp: what error texts need to know of the loaded driver.
#pragma once

#include <atomic>
#include <string>

namespace cucore::detail {

/// The function a stand-in was called for, on this thread; null when the last failure was a real
/// answer.
extern thread_local const char* missing_function;

/// The process that loaded the driver; a forked child has another number.
extern std::atomic<int> loaded_by;

/// The CPU device's report about the last kernel fault; empty on a GPU.
std::string last_fault_report();

}  // namespace cucore::detail
