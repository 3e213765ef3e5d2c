// SPDX-License-Identifier: Apache-2.0
// foreign_threads.hpp: threads that Python did not start and the exit of the interpreter.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cucore/graph.hpp"
#include "python/at_exit.hpp"

namespace cucore::python {

/// Counts the foreign threads that are inside the interpreter, and keeps them out once it exits.
///
/// A foreign thread cannot ask whether the interpreter is finalizing and then take the GIL: between
/// the two, finalization may free what PyGILState_Ensure() reads. So close() runs as an exit
/// function, before finalization: it refuses further threads and waits for those inside.
class ForeignThreads {
 public:
  /// False once the interpreter exits. Each enter() that returned true needs a leave().
  bool enter() noexcept {
    if ((state_.fetch_add(kOne) & kClosed) == 0) return true;
    leave();
    return false;
  }
  void leave() noexcept { state_.fetch_sub(kOne); }

  /// Called with the GIL. A callback that runs for longer than a second is no longer waited for: it
  /// is left where it is when it next asks for the GIL (run_or_sleep).
  void close() noexcept {
    state_.fetch_or(kClosed);
    if (state_.load() == kClosed) return;
    PyThreadState* const state = PyEval_SaveThread();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{1};
    while (state_.load() != kClosed && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    PyEval_RestoreThread(state);
  }

 private:
  static constexpr unsigned kClosed = 1;  // the lowest bit; above it, the number of threads inside
  static constexpr unsigned kOne = 2;
  std::atomic<unsigned> state_{0};
};

inline constinit ForeignThreads foreign_threads;

/// To be called once by each extension module, before its other exit functions are registered.
inline void close_to_foreign_threads_at_exit() {
  at_exit([] { foreign_threads.close(); });
}

/// Has the main thread release the owners that a thread of the driver could not release.
inline void schedule_release() {
  if (!foreign_threads.enter()) return;
  Py_AddPendingCall(
      [](void*) {
        release_deferred_owners();
        return 0;
      },
      nullptr);  // refused when many wait already, one of which will do it
  foreign_threads.leave();
}

}  // namespace cucore::python
