// handles.cpp: handles (CUstream), integers with a class of their own (CUdevice, CUdeviceptr) and
// function pointers (CUhostFn).
#include <cstdio>
#include <string>
#include <string_view>

#include "../type_table.hpp"
#include "engine.hpp"

namespace cucore::bindings {

PyTypeObject* handle_base = nullptr;

static Spares<HandleObject> spares;

PyObject* new_handle(TypeId id, std::uint64_t value) {
  PyObject* type = class_of(id);
  if (type == nullptr) return nullptr;
  auto* handle = spares.take(reinterpret_cast<PyTypeObject*>(type));
  if (handle == nullptr) return nullptr;
  const TypeRow& row = row_of(id);
  handle->value = value;
  handle->place = &handle->value;
  handle->type = id;
  handle->root = row.root;
  handle->size = static_cast<std::uint8_t>(row.size);
  return reinterpret_cast<PyObject*>(handle);
}

void handle_dealloc(PyObject* o) { spares.give(o); }

namespace {

HandleObject* self_of(PyObject* o) { return reinterpret_cast<HandleObject*>(o); }

bool is_pointer(const HandleObject* h) {
  const TypeClass kind = row_of(h->type).kind;
  return kind == TypeClass::handle || kind == TypeClass::function;
}

PyObject* make(PyTypeObject* type, PyObject* value, PyObject* place) {
  const TypeId id = type_of(type);
  if (id == kNoType)
    return PyErr_Format(PyExc_TypeError, "%s cannot be made directly", type->tp_name), nullptr;
  const TypeRow& row = row_of(id);
  Slot slot{};
  if (value != nullptr && !Py_IsNone(value)) {
    const Where where{name_of(id), "(): ", "init_value"};
    if (PyLong_CheckExact(value) && row.size == 8 && python::as_int64(value, &slot.i) &&
        slot.i >= 0) {
      // the usual one
    } else if (is_handle(value)) {
      slot.u = handle_value(self_of(value));
    } else if (row.kind == TypeClass::function && PyCallable_Check(value) &&
               !PyIndex_Check(value)) {
      if (!to_callback(value, CallbackShape::other, where, &slot, nullptr)) return nullptr;
    } else if (!to_integer(value, row.size == 4 ? Kind::none : Kind::u64, where, &slot)) {
      return nullptr;
    }
  }
  Slot address{};
  if (place != nullptr &&
      !to_integer(place, Kind::u64, Where{name_of(id), "(): ", "_ptr"}, &address))
    return nullptr;
  auto* handle = spares.take(type);
  if (handle == nullptr) return nullptr;
  handle->value = slot.u;
  handle->place = address.p != nullptr ? static_cast<std::uint64_t*>(address.p) : &handle->value;
  handle->type = id;
  handle->root = row.root;
  handle->size = static_cast<std::uint8_t>(row.size);
  return reinterpret_cast<PyObject*>(handle);
}

PyObject* handle_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"init_value", "_ptr", nullptr};
  PyObject *value = nullptr, *place = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", const_cast<char**>(keywords), &value,
                                   &place))
    return nullptr;
  return make(type, value, place);
}

/// CUstream(7): most handles are made of one number.
PyObject* handle_call(PyObject* type, PyObject* const* args, std::size_t flags, PyObject* names) {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  auto* const cls = reinterpret_cast<PyTypeObject*>(type);
  if (names == nullptr && given <= 1) return make(cls, given == 1 ? args[0] : nullptr, nullptr);
  Ref tuple, keywords;
  if (!as_tuple_and_dict(args, given, names, &tuple, &keywords)) return nullptr;
  return handle_new(cls, tuple.get(), keywords.get());
}

PyObject* handle_int(PyObject* o) {
  const HandleObject* h = self_of(o);
  if (h->size == 4) return PyLong_FromLongLong(static_cast<std::int64_t>(handle_value(h)));
  return PyLong_FromUnsignedLongLong(handle_value(h));
}

PyObject* handle_repr(PyObject* o) {
  const HandleObject* h = self_of(o);
  // The C type's own name: cudaStream_t is a CUstream, and says so.
  const char* name = name_of(h->root);
  if (is_pointer(h)) {
    char hex[24];
    std::snprintf(hex, sizeof hex, "%llx", static_cast<unsigned long long>(handle_value(h)));
    return PyUnicode_FromFormat("<%s 0x%s>", name, hex);
  }
  Ref number{handle_int(o)};
  return number ? PyUnicode_FromFormat("<%s %S>", name_of(h->type), number.get()) : nullptr;
}

PyObject* handle_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_handle(b) || self_of(a)->root != self_of(b)->root)
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((handle_value(self_of(a)) == handle_value(self_of(b))) == (op == Py_EQ));
}

Py_hash_t handle_hash(PyObject* o) {
  Ref number{handle_int(o)};
  return number ? PyObject_Hash(number.get()) : -1;
}

PyObject* get_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(self_of(o)->place); }

PyObject* cuda_stream(PyObject* o, PyObject*) {
  return Py_BuildValue("(iK)", 0, static_cast<unsigned long long>(handle_value(self_of(o))));
}

PyObject* reduce(PyObject* o, PyObject*) {
  Ref number{handle_int(o)};
  return number ? Py_BuildValue("(O(O))", reinterpret_cast<PyObject*>(Py_TYPE(o)), number.get())
                : nullptr;
}

PyMethodDef methods[] = {
    {"getPtr", get_ptr, METH_NOARGS, "getPtr($self, /)\n--\n\nAddress of the C value."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {},
};

PyMethodDef stream_methods[] = {
    {"__cuda_stream__", cuda_stream, METH_NOARGS,
     "__cuda_stream__($self, /)\n--\n\nThe CUDA stream protocol: (version, handle)."},
    {},
};

void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

}  // namespace

PyObject* make_handle_class(TypeId id, PyObject* base) {
  const Api& api = api_of(id);
  const std::string_view text = api.text + row_of(id).name;
  const bool is_stream = text == "CUstream";
  PyType_Slot slots[] = {
      {Py_tp_dealloc, as_slot(handle_dealloc)},
      {is_stream ? Py_tp_methods : 0, is_stream ? static_cast<void*>(stream_methods) : nullptr},
      {0, nullptr},
  };
  // tp_name must live as long as the type.
  auto* name = new std::string{std::string{api.module} + "." + std::string{text}};
  PyType_Spec spec{name->c_str(), sizeof(HandleObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                   slots};
  PyObject* made = PyType_FromSpecWithBases(&spec, base);
  if (made != nullptr) reinterpret_cast<PyTypeObject*>(made)->tp_vectorcall = handle_call;
  return made;
}

bool init_handles() {
  PyType_Slot slots[] = {
      {Py_tp_new, as_slot(handle_new)},
      {Py_tp_dealloc, as_slot(handle_dealloc)},
      {Py_tp_repr, as_slot(handle_repr)},
      {Py_tp_richcompare, as_slot(handle_compare)},
      {Py_tp_hash, as_slot(handle_hash)},
      {Py_nb_int, as_slot(handle_int)},
      {Py_nb_index, as_slot(handle_int)},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.Handle", sizeof(HandleObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  handle_base = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return handle_base != nullptr;
}

}  // namespace cucore::bindings
