// SPDX-License-Identifier: Apache-2.0
// signatures.cpp: __signature__ of the bound functions and classes, for inspect.signature().
// Created on access by Python code (cuda/core/_signatures.py).
#include "support.hpp"

namespace cucore::python {
namespace {

PyObject* ask(const char* function, PyObject* object) {
  const nb::object module = nb::steal(PyImport_ImportModule("cuda.core._signatures"));
  return module.is_valid() ? PyObject_CallMethod(module.ptr(), function, "O", object) : nullptr;
}

PyObject* of_function(PyObject* self, void*) { return ask("of", self); }
PyObject* of_bound(PyObject* self, void*) { return ask("of_bound", self); }

/// Descriptor in the dict of a class: __get__(None, class). Raises AttributeError for instances.
PyObject* of_class(PyObject*, PyObject* object, PyObject* type) {
  if (object != nullptr && object != Py_None) {
    PyErr_SetString(PyExc_AttributeError, "__signature__");
    return nullptr;
  }
  return ask("of_class", type);
}

/// Adds a descriptor to the dict of a type: the types of functions reject assignments from Python.
void add(PyTypeObject* type, PyObject* descriptor) {
  const nb::object held = nb::steal(descriptor);
  if (!held.is_valid() || PyDict_SetItemString(type->tp_dict, "__signature__", descriptor) < 0)
    throw nb::python_error();
  PyType_Modified(type);
}

PyGetSetDef function_signature{"__signature__", of_function, nullptr, nullptr, nullptr};
PyGetSetDef bound_signature{"__signature__", of_bound, nullptr, nullptr, nullptr};

}  // namespace

void bind_signatures(nb::module_& m) {
  const nb::object stream = m.attr("Stream");
  const nb::object method = stream.attr("create_graph_builder");
  const nb::object bound = m.attr("LEGACY_DEFAULT_STREAM").attr("create_graph_builder");
  const nb::object function = m.attr("driver_version");
  for (PyTypeObject* type : {Py_TYPE(method.ptr()), Py_TYPE(function.ptr())})
    if (PyDict_GetItemString(type->tp_dict, "__signature__") == nullptr)
      add(type, PyDescr_NewGetSet(type, &function_signature));
  add(Py_TYPE(bound.ptr()), PyDescr_NewGetSet(Py_TYPE(bound.ptr()), &bound_signature));
  PyType_Slot slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(&of_class)}, {0, nullptr}};
  PyType_Spec spec{"cuda.core._core._ClassSignature", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT,
                   slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  const nb::object descriptor = type();
  for (const char* name : {"Buffer", "Context", "Device", "Event", "Graph", "Kernel",
                           "KernelOccupancy", "LaunchConfig", "ObjectCode", "Stream"}) {
    const nb::object cls = m.attr(name);
    add(reinterpret_cast<PyTypeObject*>(cls.ptr()), Py_NewRef(descriptor.ptr()));
  }
}
CUCORE_BIND(kBindRest + 100, bind_signatures)  // after all classes are registered

}  // namespace cucore::python
