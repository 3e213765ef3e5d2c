// SPDX-License-Identifier: Apache-2.0
// foreign_threads.hpp: threads that Python did not create, and interpreter finalization.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cucore/graph.hpp"
#include "python/at_exit.hpp"

namespace cucore::python {

/// Counts the foreign threads inside the interpreter, and rejects further ones before finalization.
///
/// A foreign thread cannot test whether the interpreter is finalizing and then acquire the GIL:
/// between the two, finalization may free memory that PyGILState_Ensure() reads. Therefore close()
/// runs as an exit function, before finalization: it rejects further threads and waits for those
/// inside.
class ForeignThreads {
 public:
  /// Returns false after close(). Each enter() that returns true must be paired with a leave().
  bool enter() noexcept {
    if ((state_.fetch_add(kOne) & kClosed) == 0) return true;
    leave();
    return false;
  }
  void leave() noexcept { state_.fetch_sub(kOne); }

  /// Rejects further threads and waits for those inside, for at most one second. A callback that
  /// runs longer blocks forever when it next acquires the GIL (run_or_sleep). Requires the GIL.
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
  static constexpr unsigned kClosed =
      1;  // the lowest bit; the bits above are the number of threads inside
  static constexpr unsigned kOne = 2;
  std::atomic<unsigned> state_{0};
};

inline constinit ForeignThreads foreign_threads;

/// Registers foreign_threads.close() as an exit function. Each extension module must call it once,
/// before it registers its other exit functions.
inline void close_to_foreign_threads_at_exit() {
  at_exit([] { foreign_threads.close(); });
}

/// Schedules a pending call on the main thread that releases the owners which a thread of the
/// driver could not release.
inline void schedule_release() {
  if (!foreign_threads.enter()) return;
  Py_AddPendingCall(
      [](void*) {
        release_deferred_owners();
        return 0;
      },
      nullptr);  // fails if the queue is full: then a queued call releases them
  foreign_threads.leave();
}

}  // namespace cucore::python
