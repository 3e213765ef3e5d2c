// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/thread_local_reserve.hpp: thread-local data of threads that start without memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
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
  ThreadLocalReserve()
      : pages_{mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {
    if (pages_ == MAP_FAILED) throw std::bad_alloc{};
  }
  /// In the new thread, first of all: uses variables of this library and of the C++ runtime.
  void use() const noexcept {
    release();
    t_has_thread_locals = std::uncaught_exceptions() == 0;
  }
  void release() const noexcept { munmap(pages_, kBytes); }  ///< Also: the thread was not created.

 private:
  /// Pages, not memory of the heap: where the address space has no room for a heap of the new
  /// thread, malloc() maps pages for each of its allocations and uses no other thread's heap.
  static constexpr std::size_t kBytes = 256 * 1024;
  void* pages_;
};

}  // namespace cucpu
