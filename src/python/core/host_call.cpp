// SPDX-License-Identifier: Apache-2.0
// host_call.cpp: host functions of graphs: Python callables and C functions of ctypes.
#include "graph_support.hpp"

namespace cucore::python {
namespace {

/// Returns the ctypes module if it is imported; otherwise no ctypes object can exist.
nb::object loaded_ctypes() {
  const nb::object name = nb::str("ctypes");
  return nb::steal(PyImport_GetModule(name.ptr()));
}

/// Throws TypeError for a C function that is not declared as `void f(void*)`.
void check_prototype(nb::handle ctypes, nb::handle fn) {
  const nb::object arguments = fn.attr("argtypes");
  const bool is_right = fn.attr("restype").is_none() && PySequence_Check(arguments.ptr()) != 0 &&
                        nb::len(arguments) == 1 &&
                        nb::object{arguments[0]}.is(ctypes.attr("c_void_p"));
  if (is_right) return;
  throw nb::type_error(
      "fn must be a C function that returns nothing and takes one void pointer: declare it with "
      "ctypes.CFUNCTYPE(None, ctypes.c_void_p), or set restype = None and argtypes = "
      "[ctypes.c_void_p]");
}

/// Returns (callable or None, address, data, objects to keep alive).
nb::object host_function(nb::handle fn, nb::handle user_data) {
  const nb::object ctypes = loaded_ctypes();
  if (!ctypes.is_valid() || !nb::isinstance(fn, ctypes.attr("_CFuncPtr"))) {
    PyErr_Clear();
    if (PyCallable_Check(fn.ptr()) == 0) {
      PyErr_Format(PyExc_TypeError, "fn must be callable, not %s", Py_TYPE(fn.ptr())->tp_name);
      throw nb::python_error();
    }
    if (!user_data.is_none())
      throw nb::value_error(
          "user_data is for C functions only; a Python callable can carry its own");
    return nb::make_tuple(fn, 0, 0, fn);
  }
  check_prototype(ctypes, fn);
  const nb::object address = ctypes.attr("cast")(fn, ctypes.attr("c_void_p")).attr("value");
  if (user_data.is_none()) return nb::make_tuple(nb::none(), address, 0, fn);
  if (PyIndex_Check(user_data.ptr()) != 0) {  // includes NumPy integers, which also have a buffer
    const nb::object number = nb::steal(PyNumber_Index(user_data.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    return nb::make_tuple(nb::none(), address, number, fn);
  }
  const nb::object data = nb::steal(PyBytes_FromObject(user_data.ptr()));
  if (!data.is_valid()) throw nb::python_error();
  const nb::object held = ctypes.attr("create_string_buffer")(data, nb::len(data));
  return nb::make_tuple(nb::none(), address, ctypes.attr("addressof")(held),
                        nb::make_tuple(fn, held));
}

void bind_host_call(nb::module_& m) {
  m.def("host_function", &host_function, "fn"_a.none(), "user_data"_a.none());
}
CUCORE_BIND(kBindGraph, bind_host_call)

}  // namespace
}  // namespace cucore::python
