// cpu/exec/touch.hpp: queued work on memory that the program named, which may be gone when its turn
// comes: the context breaks with a report, as after a kernel that ran into it.
#pragma once

#include <string>

#include "cpu/base/error.hpp"
#include "cpu/device/context.hpp"
#include "cpu/engine/run/try_access.hpp"

namespace cucpu::driver {

/// CUDA_ERROR_ILLEGAL_ADDRESS, and what a kernel's fault report would say.
struct IllegalAddress : Error {
  std::string report;
};

[[noreturn]] void fail_touch(const MemoryFault& fault, std::string work);

/// Runs plain reads and writes (see try_access()). Where the memory is not there, throws
/// IllegalAddress; `name()` is a sentence's beginning that says which work it was.
template <class Work, class Name>
void touch_memory(const Work& work, const Name& name) {
  MemoryFault fault;
  if (!try_access(work, fault)) [[unlikely]]
    fail_touch(fault, name());
}

/// Runs work in the calling thread; an IllegalAddress breaks the context and goes on to the caller.
template <class Work>
void touch_in(Context& context, const Work& work) {
  try {
    work();
  } catch (const IllegalAddress&) {
    context.break_with_current_exception();
    throw;
  }
}

}  // namespace cucpu::driver
