// SPDX-License-Identifier: Apache-2.0
// keep_alive.cpp: ownership of Python objects by C++ objects.
#include "keep_alive.hpp"

#include <atomic>
#include <mutex>
#include <utility>

#include "driver/mutex.hpp"
#include "protection.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

/// A node of a circular doubly linked list; `ring` is its sentinel.
struct Kept {
  PyObject* object = nullptr;
  Kept* before = this;
  Kept* after = this;
};

cucore::detail::Mutex ring_mutex;
Kept ring;
std::atomic<bool> module_has_ended{false};

/// Removes a node from the list. Returns its reference, which the caller owns.
PyObject* take_out(Kept& kept) noexcept {
  const std::lock_guard lock{ring_mutex};
  kept.before->after = kept.after;
  kept.after->before = kept.before;
  kept.before = kept.after = &kept;
  return std::exchange(kept.object, nullptr);
}

struct Release {
  void operator()(void* kept) const noexcept {
    const std::unique_ptr<Kept> going{static_cast<Kept*>(kept)};
    release_reference(take_out(*going));
  }
};

/// Returns whether this thread has the GIL; also during finalization, when Py_IsInitialized()
/// already returns 0.
bool is_inside_python() noexcept {
  PyThreadState* mine = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return mine != nullptr && mine == PyThreadState_GetUnchecked();
#else
  return mine != nullptr && mine == _PyThreadState_UncheckedGet();
#endif
}

}  // namespace

void release_reference(PyObject* held) noexcept {
  if (!CUCORE_PROTECTION("release-graph-references")) return;
  if (is_inside_python()) return Py_XDECREF(held);
  if (const WithGil gil; gil) {  // else: leak rather than crash
    run_or_sleep([held] {
      Py_XDECREF(held);  // may run Python code
      return 0;
    });
  }
}

std::shared_ptr<void> keep_alive(nb::object object) {
  auto kept = std::make_unique<Kept>();
  kept->object = object.release().ptr();
  {
    const std::lock_guard lock{ring_mutex};
    kept->before = &ring;
    kept->after = std::exchange(ring.after, kept.get());
    kept->after->before = kept.get();
  }
  return {static_cast<void*>(kept.release()), Release{}};
}

PyObject* kept_object(const std::shared_ptr<void>& kept) noexcept {
  return kept != nullptr ? static_cast<Kept*>(kept.get())->object : nullptr;
}

int visit_kept(const std::shared_ptr<void>& kept, visitproc visit, void* arg) noexcept {
  if (kept.use_count() != 1 || std::get_deleter<Release>(kept) == nullptr) return 0;
  Py_VISIT(kept_object(kept));
  return 0;
}

void release_all_kept() noexcept {
  module_has_ended = true;
  while (true) {
    Kept* next = nullptr;
    {
      const std::lock_guard lock{ring_mutex};
      next = ring.after;
    }
    if (next == &ring) return;
    Py_XDECREF(take_out(*next));  // may release others and remove them from the list
  }
}

bool are_all_released() noexcept { return module_has_ended; }

}  // namespace cucore::python
