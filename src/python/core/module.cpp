// SPDX-License-Identifier: Apache-2.0
// module.cpp: the entry point of cuda.core._core; runs the registered functions of the other files.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "core/blocking_calls.hpp"
#include "keep_alive.hpp"
#include "python/at_exit.hpp"
#include "python/foreign_threads.hpp"
#include "support.hpp"

namespace cucore::python {

static std::vector<std::pair<int, BindFunction>>& registrations() {
  static std::vector<std::pair<int, BindFunction>> list;
  return list;
}

Registration::Registration(int order, BindFunction function) {
  registrations().emplace_back(order, function);
}

}  // namespace cucore::python

namespace {
/// Hooks that release the GIL: objects are destroyed on the thread that releases the last
/// reference, usually with the GIL.
constexpr cucore::detail::WaitHooks kWithoutGil{
    []() noexcept -> void* {
      if (cucore::python::interpreter_is_ending() || PyGILState_Check() == 0) return nullptr;
      return PyEval_SaveThread();
    },
    [](void* state) noexcept {
      if (state == nullptr) return;
      cucore::python::run_or_sleep([state] {
        PyEval_RestoreThread(static_cast<PyThreadState*>(state));
        return 0;
      });
    }};
}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The C++ half of cuda.core.";
  cucore::detail::wait_hooks.store(&kWithoutGil);
  cucore::python::close_to_foreign_threads_at_exit();
  // Objects of the program may live until finalization; only our tests enable the report.
  nb::set_leak_warnings(std::getenv("CUCORE_LEAK_WARNINGS") != nullptr);
  auto list = cucore::python::registrations();
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [order, bind] : list) bind(m);
  // Destroyed when the interpreter clears this module.
  m.attr("_end") = nb::capsule(&kWithoutGil, [](void*) noexcept {
    cucore::python::clear_memory_resources();
    cucore::python::release_all_kept();
  });
  cucore::python::at_exit([] { cucore::python::Member::clear_all(); });
}
