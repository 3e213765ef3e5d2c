// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/thread_local_reserve.hpp: thread-local data of threads that start without memory.
#pragma once

#include <cstdlib>
#include <exception>
#include <new>

namespace cucpu {

inline thread_local volatile bool t_has_thread_locals = false;

/// Memory for the thread-local data of a new thread. The C library allocates it when a variable of
/// a loaded library is first used, and ends the process when it cannot. An exception uses such a
/// variable, too.
class ThreadLocalReserve {
 public:
  /// In the creating thread. Throws std::bad_alloc.
  ThreadLocalReserve() : memory_{std::malloc(kBytes)} {
    if (!memory_) throw std::bad_alloc{};
  }
  /// In the new thread, first of all: uses variables of this library and of the C++ runtime.
  void use() const noexcept {
    std::free(memory_);
    t_has_thread_locals = std::uncaught_exceptions() == 0;
  }
  void release() const noexcept { std::free(memory_); }  ///< The thread was not created.

 private:
  static constexpr std::size_t kBytes = 64 * 1024;
  void* memory_;
};

}  // namespace cucpu
