// SPDX-License-Identifier: Apache-2.0
// gil.hpp: release and acquisition of the GIL, safe during interpreter finalization.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <exception>

#include "protection.hpp"
#include "python/foreign_threads.hpp"

namespace cucore::python {

/// Returns whether the interpreter is finalizing or finalized. Only the finalizing thread may then
/// use the Python API.
inline bool interpreter_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// The main interpreter, which exists until finalization.
inline PyInterpreterState* const main_interpreter = PyInterpreterState_Main();

/// Returns whether the calling thread is the only one with a thread state. Requires the GIL. Reads
/// the links of the thread state directly: the API would take four calls.
inline bool is_only_thread() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  const PyThreadState* const self = PyThreadState_GetUnchecked();
#else
  const PyThreadState* const self = _PyThreadState_UncheckedGet();
#endif
  return self->next == nullptr && self->prev == nullptr &&
         PyInterpreterState_Head() ==
             main_interpreter;  // the head is the newest interpreter: there is no other
}

/// Runs code that may acquire the GIL: directly, or as Python code, which releases and reacquires
/// it at any time. Up to Python 3.13, pthread_exit ends a thread that acquires the GIL during
/// finalization. That would unwind through noexcept functions, and through owners that would
/// release objects and locks of a finalized interpreter. Such a thread blocks here forever instead,
/// as it does in later Python versions. `work` must own nothing, because its frame is unwound. The
/// forced unwind of pthread_exit is not a C++ exception: current_exception() is null.
template <class Work>
auto run_or_sleep(Work work) noexcept {
  try {
    return work();
  } catch (...) {
    if (std::current_exception()) std::terminate();
    while (true) pause();
  }
}

/// Releases the GIL for a scope.
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

/// Acquires the GIL on any thread for a scope. Converts to false, without the GIL, if the
/// interpreter is finalizing.
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
  bool is_foreign_ = false;  // not created by Python: counted in foreign_threads
};

}  // namespace cucore::python
