// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/debugger.hpp: debug mode: what the GDB extension (python/cucore/gdb) reads to find
// the threads of running blocks. Plain data with exported names, because a release build has no
// debug information of its own.
#pragma once

#include <cstdint>

namespace cucpu {

class ThreadScheduler;

/// A host thread that runs a grid in debug mode, registered while this object lives. Version 1 of
/// the layout: the extension reads these fields by their offsets.
struct DebuggedRun {
  DebuggedRun(const ThreadScheduler&, const char* kernel, const void* entry) noexcept;
  ~DebuggedRun();
  DebuggedRun(const DebuggedRun&) = delete;
  DebuggedRun& operator=(const DebuggedRun&) = delete;

  const DebuggedRun* next;
  const ThreadScheduler* scheduler;
  const char* kernel;
  std::uint64_t host_thread;  ///< gettid()
  const void* entry;          ///< the code of the kernel
};

}  // namespace cucpu
