// SPDX-License-Identifier: Apache-2.0
// gil.hpp: the interpreter's lock, given up and taken where the interpreter may be on its way out.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <exception>

#include "protection.hpp"
#include "python/foreign_threads.hpp"

namespace cucore::python {

/// True from the moment the interpreter begins to take itself apart: nothing of it may be touched
/// any more by threads other than the one that does so.
inline bool interpreter_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// The first interpreter, which lives as long as Python does.
inline PyInterpreterState* const main_interpreter = PyInterpreterState_Main();

/// True when no thread but this one runs Python or wants to. To be asked with the lock. The state's
/// neighbours are read where CPython keeps them: to ask for them would be four calls.
inline bool is_only_thread() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  const PyThreadState* const self = PyThreadState_GetUnchecked();
#else
  const PyThreadState* const self = _PyThreadState_UncheckedGet();
#endif
  return self->next == nullptr && self->prev == nullptr &&
         PyInterpreterState_Head() ==
             main_interpreter;  // the newest is the first: there is no other
}

/// Runs what may ask for the lock: taking it, or Python code, which gives it up and asks again at
/// any time. A thread that asks too late is ended by pthread_exit, up to Python 3.13. That would
/// unwind through functions that promise not to throw, and through owners that would give back
/// objects and locks of an interpreter that is gone. Such a thread sleeps here for good instead, as
/// it does in later Pythons. `work` must own nothing: its own frame is unwound. What ends a thread
/// is no exception that could be asked for (nor an object: a reference to it would be null).
template <class Work>
auto run_or_sleep(Work work) noexcept {
  try {
    return work();
  } catch (...) {
    if (std::current_exception()) std::terminate();
    while (true) pause();
  }
}

/// Lets other threads run Python for a scope.
class WithoutGil {
 public:
  WithoutGil() noexcept
      : state_{CUCORE_PROTECTION("release-gil-while-waiting") ? PyEval_SaveThread() : nullptr} {}
  ~WithoutGil() {
    if (state_)
      run_or_sleep([this] {
        PyEval_RestoreThread(state_);
        return 0;
      });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the lock on any thread; false, without it, once the interpreter is on its way out.
class WithGil {
 public:
  WithGil() noexcept {
    if (PyGILState_GetThisThreadState() == nullptr) {
      if (!foreign_threads.enter()) return;
      is_foreign_ = true;
    }
    if (interpreter_is_ending() && PyGILState_Check() == 0) return;
    state_ = run_or_sleep([] { return PyGILState_Ensure(); });
    held_ = true;
  }
  ~WithGil() {
    if (held_) PyGILState_Release(state_);
    if (is_foreign_) foreign_threads.leave();
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  PyGILState_STATE state_{};
  bool held_ = false;
  bool is_foreign_ = false;  // Python did not start this thread: it is counted
};

}  // namespace cucore::python
