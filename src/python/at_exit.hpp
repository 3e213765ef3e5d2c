// SPDX-License-Identifier: Apache-2.0
// at_exit.hpp: what an extension module forgets when the interpreter begins to end.
#pragma once

#include <Python.h>

namespace cucore::python {

/// Runs a function when the interpreter begins to end: all of Python still works then, and
/// programs' own exit functions that were registered before run later, so that what is forgotten
/// must be found again by whoever asks. For references to classes and functions that would keep a
/// module, and with it the variables of a program, alive. (What programs gave us to keep, kept.hpp,
/// has to last longer: until the module itself ends.)
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
  PyErr_Clear();  // then it is never forgotten
}

}  // namespace cucore::python
