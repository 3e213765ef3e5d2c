// SPDX-License-Identifier: Apache-2.0
// resource_base.cpp: cuda.core._core._Resource, the base class of the package's memory resources: a
// slot for the C++ resource, and the most frequent operations without Python code.
#include <Python.h>
#include <structmember.h>

#include <cstddef>

#include "fast_path_types.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

struct ResourceObject {
  PyObject head;
  PyObject* native;  // a _Native; null before __init__
  int device_id;
  bool is_host_accessible, is_managed;  // attributes _host and _managed of the class
};
ResourceObject& resource(PyObject* self) { return *reinterpret_cast<ResourceObject*>(self); }

PyObject* resource_allocate(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                            PyObject* kwnames) {
  const bool is_usual = nargs == 1 && kwnames != nullptr && PyTuple_GET_SIZE(kwnames) == 1 &&
                        PyTuple_GET_ITEM(kwnames, 0) == fast_path_types.stream_name;
  if (is_usual) {
    if (PyObject* made = allocate_usually(self, resource(self).native, args[0], args[1]))
      return made;
  }
  static const Names<2> names{"size", "stream"};
  std::array<PyObject*, 2> given;
  parse("allocate", names, 1, 2, args, nargs, kwnames, given);
  return allocate_from(self, native_object(self), given[0], given[1], "allocate").release().ptr();
}

/// Returns a Boolean attribute of the class.
bool flag(PyTypeObject* type, const char* name) {
  const nb::object value =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
  if (!value.is_valid()) PyErr_Clear();
  return value.is_valid() && value.is(Py_True);
}

PyObject* resource_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  resource(self).device_id = -1;
  resource(self).is_host_accessible = flag(type, "_host");
  resource(self).is_managed = flag(type, "_managed");
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(resource(self).native);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(resource(self).native);
  return 0;
}
void deallocate(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)clear(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

}  // namespace

void bind_resource_base(nb::module_& m) {
  static PyMemberDef members[] = {
      {"_native", T_OBJECT_EX, offsetof(ResourceObject, native), 0, nullptr},
      {"_device_id", T_INT, offsetof(ResourceObject, device_id), 0, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_members, members},
                                {Py_tp_new, reinterpret_cast<void*>(&resource_new)},
                                {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate)},
                                {0, nullptr}};
  static PyType_Spec spec{"cuda.core._core._Resource", sizeof(ResourceObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  def_fast<resource_allocate>(type, "allocate",
                              "allocate($self, size, *, stream)\n--\n\nReturn a Buffer of size "
                              "bytes, usable by work queued on stream from now on.");
  def_get(
      type, "device_id", [](PyObject* self) { return PyLong_FromLong(resource(self).device_id); },
      "Ordinal of the device of the memory; -1 for host memory.");
  def_get(
      type, "is_device_accessible", [](PyObject*) { return Py_NewRef(Py_True); },
      "True: kernels can access the memory.");
  def_get(
      type, "is_host_accessible",
      [](PyObject* self) { return PyBool_FromLong(resource(self).is_host_accessible); },
      "True if the host can access the memory directly.");
  def_get(
      type, "is_managed", [](PyObject* self) { return PyBool_FromLong(resource(self).is_managed); },
      "True for managed memory, which migrates between host and device.");
  m.attr("_Resource") = type;
}
CUCORE_BIND(kBindMemory, bind_resource_base)

}  // namespace cucore::python
