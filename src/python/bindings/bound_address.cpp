// SPDX-License-Identifier: Apache-2.0
// bound_address.cpp: the bound method record.getPtr.
#include "bound_address.hpp"

#include <structmember.h>

#include <cstddef>

namespace cucore::bindings {
namespace {

struct BoundAddress {
  PyObject_HEAD RecordObject* record;  // owned
  vectorcallfunc call;
};

PyTypeObject* bound_type = nullptr;
void dealloc(PyObject* o);
FreeList<BoundAddress, dealloc> free_list;

BoundAddress* self_of(PyObject* o) { return reinterpret_cast<BoundAddress*>(o); }
void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

/// Returns the interpreter's bound method, for attributes of the method and for error messages.
PyObject* method_of(BoundAddress* bound) {
  PyObject* const method =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(record_base), "getPtr");
  if (method == nullptr) return nullptr;
  const Ref hold{method};
  return Py_TYPE(method)->tp_descr_get(method, reinterpret_cast<PyObject*>(bound->record),
                                       reinterpret_cast<PyObject*>(Py_TYPE(bound->record)));
}

PyObject* call(PyObject* o, PyObject* const* args, std::size_t flags, PyObject* names) {
  if (PyVectorcall_NARGS(flags) == 0 && names == nullptr) [[likely]]
    return PyLong_FromVoidPtr(self_of(o)->record->place);
  const Ref method{method_of(self_of(o))};  // raises the error
  return method ? PyObject_Vectorcall(method.get(), args, flags, names) : nullptr;
}

PyObject* get_attribute(PyObject* o, PyObject* name) {
  const Ref method{method_of(self_of(o))};
  return method ? PyObject_GetAttr(method.get(), name) : nullptr;
}

PyObject* repr(PyObject* o) {
  const Ref method{method_of(self_of(o))};
  return method ? PyObject_Repr(method.get()) : nullptr;
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, bound_type)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((self_of(a)->record == self_of(b)->record) == (op == Py_EQ));
}

Py_hash_t hash(PyObject* o) {
  return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(self_of(o)->record) >> 4);
}

void dealloc(PyObject* o) {
  Py_DECREF(self_of(o)->record);
  free_list.give(o);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundAddress, call), READONLY, nullptr},
    {},
};

}  // namespace

PyObject* bound_address(RecordObject* record) {
  BoundAddress* const bound = free_list.take(bound_type);
  if (bound == nullptr) return nullptr;
  Py_INCREF(record);
  bound->record = record;
  bound->call = call;
  return reinterpret_cast<PyObject*>(bound);
}

bool init_bound_address() {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, as_slot(dealloc)},
      {Py_tp_call, as_slot(PyVectorcall_Call)},
      {Py_tp_getattro, as_slot(get_attribute)},
      {Py_tp_repr, as_slot(repr)},
      {Py_tp_richcompare, as_slot(compare)},
      {Py_tp_hash, as_slot(hash)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.BoundAddress", sizeof(BoundAddress), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  bound_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return bound_type != nullptr;
}

}  // namespace cucore::bindings
