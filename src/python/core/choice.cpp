// SPDX-License-Identifier: Apache-2.0
// choice.cpp: arguments that are members of string enums.
#include <string>

#include "support.hpp"

namespace cucore::python {
namespace {

/// Returns the member of a string enum with this value. Throws ValueError that names the argument
/// and lists the valid values.
nb::object choice(nb::handle type, nb::handle value, const char* argument) {
  nb::object member = nb::steal(PyObject_CallOneArg(type.ptr(), value.ptr()));
  if (member.is_valid()) return member;
  if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) throw nb::python_error();
  PyErr_Clear();
  std::string words;
  for (nb::handle word : type) {
    if (!words.empty()) words += ", ";
    words += nb::cast<std::string>(nb::repr(nb::str(word)));
  }
  PyErr_Format(PyExc_ValueError, "%s must be one of %s, not %R", argument, words.c_str(),
               value.ptr());
  throw nb::python_error();
}

void bind_choice(nb::module_& m) {
  m.def("choice", &choice, "type"_a, "value"_a.none(), "argument"_a);
}
CUCORE_BIND(kBindDriver, bind_choice)

}  // namespace
}  // namespace cucore::python
