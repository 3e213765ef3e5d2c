// module.cpp: the entry point of cuda.core._core; runs what the other files registered.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "binding.hpp"
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

NB_MODULE(_core, m) {
  m.doc() = "The C++ half of cuda.core.";
  // Objects that live until the interpreter ends are the user's business; our own tests ask for the
  // report.
  nb::set_leak_warnings(std::getenv("CUCORE_LEAK_WARNINGS") != nullptr);
  auto list = cucore::python::registrations();
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [order, bind] : list) bind(m);
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { cucore::python::Member::forget_all(); }));
}
