// SPDX-License-Identifier: Apache-2.0
// at_exit.hpp: functions of an extension module that run when the interpreter begins to exit.
#pragma once

#include <Python.h>

namespace cucore::python {

/// Runs a function when the interpreter begins to exit. All of Python still works then, and exit
/// functions that the program registered earlier run later, so a reference that is released here
/// must be looked up again on its next use. For references to classes and functions that would keep
/// a module, and with it the variables of a program, alive. (Objects that programs gave us to keep,
/// kept.hpp, are released later: when the module itself is destroyed.)
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
  PyErr_Clear();  // then it is never called
}

}  // namespace cucore::python
