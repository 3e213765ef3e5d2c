// SPDX-License-Identifier: Apache-2.0
// cpu/exec/memory_access.hpp: accesses of queued work to memory that the program named. Memory that
// is unmapped by then sets the context's error with a report, as a kernel's illegal access does.
#pragma once

#include <string>

#include "cpu/base/error.hpp"
#include "cpu/engine/run/try_access.hpp"
#include "cpu/exec/execution_context.hpp"

namespace cucpu::driver {

/// CUDA_ERROR_ILLEGAL_ADDRESS with a fault report.
struct IllegalAddress : Error {
  std::string report;
};

[[noreturn]] void fail_access(const MemoryFault& fault, std::string work);

/// Runs plain reads and writes (see try_access()). Throws IllegalAddress on a fault; `name()` is
/// the start of the report and names the work.
template <class Work, class Name>
void access_memory(const Work& work, const Name& name) {
  MemoryFault fault;
  if (!try_access(work, fault)) [[unlikely]]
    fail_access(fault, name());
}

/// Runs work in the calling thread. An IllegalAddress sets the context's error and is rethrown.
template <class Work>
void access_in(ExecutionContext& context, const Work& work) {
  try {
    work();
  } catch (const IllegalAddress&) {
    context.break_with_current_exception();
    throw;
  }
}

}  // namespace cucpu::driver
