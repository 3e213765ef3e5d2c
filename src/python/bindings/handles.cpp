// SPDX-License-Identifier: Apache-2.0
// handles.cpp: classes of handles (CUstream), integers (CUdevice, CUdeviceptr) and function
// pointers (CUhostFn).
#include <charconv>
#include <string>
#include <string_view>

#include "../type_table.hpp"
#include "engine.hpp"

namespace cucore::bindings {

PyTypeObject* handle_base = nullptr;

FreeList<HandleObject, handle_dealloc> handle_spares;

void handle_dealloc(PyObject* o) { handle_spares.give(o); }

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
      // the common case
    } else if (is_handle(value)) {
      slot.u = handle_value(self_of(value));
    } else if (row.kind == TypeClass::function && PyCallable_Check(value) &&
               !PyIndex_Check(value)) {
      if (!to_callback(value, CallbackShape::other, where, &slot, nullptr)) return nullptr;
    } else if (!to_integer(value, range_kind(row), where, &slot)) {
      return nullptr;
    }
  }
  Slot address{};
  if (place != nullptr &&
      !to_integer(place, Kind::u64, Where{name_of(id), "(): ", "_ptr"}, &address))
    return nullptr;
  auto* handle = handle_spares.take(type);
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

/// vectorcall of handle classes. Most handles are created from one number: CUstream(7).
PyObject* handle_call(PyObject* type, PyObject* const* args, std::size_t flags, PyObject* names) {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  auto* const cls = reinterpret_cast<PyTypeObject*>(type);
  if (names == nullptr && given <= 1) return make(cls, given == 1 ? args[0] : nullptr, nullptr);
  if (given == 0 && PyTuple_GET_SIZE(names) == 1) {  // one of the two parameters by keyword
    PyObject* const name = PyTuple_GET_ITEM(names, 0);
    if (PyUnicode_CompareWithASCIIString(name, "init_value") == 0)
      return make(cls, args[0], nullptr);
  }
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
  // The name of the C type: cudaStream_t is an alias of CUstream.
  const bool pointer = is_pointer(h);
  const std::string_view name = name_of(pointer ? h->root : h->type);
  char digits[24];
  char* end = nullptr;
  if (pointer)
    end = std::to_chars(digits, digits + sizeof digits, handle_value(h), 16).ptr;
  else if (h->size == 4)
    end = std::to_chars(digits, digits + sizeof digits, static_cast<std::int64_t>(handle_value(h)))
              .ptr;
  else
    end = std::to_chars(digits, digits + sizeof digits, handle_value(h)).ptr;
  std::string text;  // usually short enough to need no allocation
  text.append("<").append(name).append(pointer ? " 0x" : " ").append(digits, end).append(">");
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* handle_compare(PyObject* a, PyObject* b, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  if (!is_plain_handle(b)) {
    if (Py_IsNone(b) || PyLong_CheckExact(b))  // never equal to a handle
      return Py_NewRef(op == Py_NE ? Py_True : Py_False);
    if (!is_handle(b)) Py_RETURN_NOTIMPLEMENTED;
  }
  if (self_of(a)->root != self_of(b)->root) Py_RETURN_NOTIMPLEMENTED;
  const bool same = handle_value(self_of(a)) == handle_value(self_of(b));
  return Py_NewRef(same == (op == Py_EQ) ? Py_True : Py_False);
}

/// Returns the hash of the int value.
Py_hash_t handle_hash(PyObject* o) {
  const HandleObject* const h = self_of(o);
  const std::uint64_t value = handle_value(h);
  if (h->size == 8 && value < (std::uint64_t{1} << 61) - 1) [[likely]]
    return static_cast<Py_hash_t>(value);
  Ref number{handle_int(o)};
  return number ? PyObject_Hash(number.get()) : -1;
}

PyObject* get_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(self_of(o)->place); }

PyObject* cuda_stream(PyObject* o, PyObject*) {
  PyObject* const handle = PyLong_FromUnsignedLongLong(handle_value(self_of(o)));
  PyObject* const pair = handle != nullptr ? PyTuple_New(2) : nullptr;
  if (pair == nullptr) return Py_XDECREF(handle), nullptr;
  PyTuple_SET_ITEM(pair, 0, PyLong_FromLong(0));
  PyTuple_SET_ITEM(pair, 1, handle);
  return pair;
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

/// Defined in every class, although the base has it too, so that CPython's method descriptor has
/// the expected class.
PyMethodDef class_methods[] = {methods[0], {}};

PyMethodDef stream_methods[] = {
    methods[0],
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
  const std::string doc = std::string{text} + "(init_value=0, _ptr=0)\n--\n\nThe C type " +
                          std::string{text} +
                          ": init_value is its value; _ptr, the address of one to look at.";
  PyType_Slot slots[] = {
      {Py_tp_dealloc, as_slot(handle_dealloc)},
      {Py_tp_methods, is_stream ? stream_methods : class_methods},
      {Py_tp_doc, const_cast<char*>(doc.c_str())},
      {0, nullptr},
  };
  // tp_name must outlive the type.
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
