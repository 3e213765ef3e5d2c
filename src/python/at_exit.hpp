// SPDX-License-Identifier: Apache-2.0
// at_exit.hpp: exit functions of an extension module.
#pragma once

#include <Python.h>

namespace cucore::python {

/// Registers an exit function (Python's atexit), which runs before finalization. The interpreter is
/// still fully usable then, and exit functions that the program registered earlier run later: a
/// reference that is released here must be looked up again on its next use. For references to
/// classes and functions that would keep a module, and with it a program's variables, alive.
/// (Objects that programs gave us to keep alive, keep_alive.hpp, are released later, with the
/// module.)
inline void at_exit(void (*function)()) noexcept {
  static PyMethodDef method{
      "forget",
      [](PyObject* capsule, PyObject*) -> PyObject* {
        reinterpret_cast<void (*)()>(PyCapsule_GetPointer(capsule, nullptr))();
        Py_RETURN_NONE;
      },
      METH_NOARGS, nullptr};
  PyObject* const module = PyImport_ImportModule("atexit");
  PyObject* const capsule = PyCapsule_New(reinterpret_cast<void*>(function), nullptr, nullptr);
  PyObject* const call = capsule != nullptr ? PyCFunction_New(&method, capsule) : nullptr;
  if (module != nullptr && call != nullptr)
    Py_XDECREF(PyObject_CallMethod(module, "register", "O", call));
  Py_XDECREF(call);
  Py_XDECREF(capsule);
  Py_XDECREF(module);
  PyErr_Clear();  // on failure the function is never called
}

}  // namespace cucore::python
