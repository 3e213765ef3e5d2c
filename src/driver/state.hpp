// state.hpp: state of the loaded driver that error messages use.
#pragma once

#include <atomic>
#include <string>

namespace cucore::detail {

/// Name of the missing function whose stub this thread called last; null if the last error came
/// from the driver.
extern thread_local const char* missing_function;

/// Process id of the process that loaded the driver; differs from getpid() in a forked child.
extern std::atomic<int> loader_pid;

/// The CPU device's report about the last kernel fault; empty on a GPU.
std::string last_fault_report();

}  // namespace cucore::detail
