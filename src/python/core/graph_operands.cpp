// SPDX-License-Identifier: Apache-2.0
// graph_operands.cpp: conversion of the operands of copy and fill nodes.
#include "graph_support.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// Returns the address of a Buffer, or of an int.
CUdeviceptr address_of(nb::handle place) {
  if (const PyBuffer* const buffer = buffer_of(place.ptr())) {
    if (buffer->buffer.is_closed()) throw nb::value_error("the buffer is closed");
    return buffer->buffer.handle();
  }
  nb::object number = nb::steal(PyNumber_Long(place.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const unsigned long long address = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return address;
}

/// Returns an owner of the memory of an operand, or of the owner given for an address. The memory
/// stays valid after the operand is closed.
nb::object held(nb::handle place, nb::handle owner) {
  if (!owner.is_none() && buffer_of(place.ptr()) != nullptr)
    throw nb::value_error("an owner is for an address only: a Buffer keeps its own memory");
  if (const PyBuffer* const buffer = buffer_of(owner.ptr());
      buffer != nullptr && buffer->buffer.is_closed())
    throw nb::value_error("the owner of the address is a Buffer that is closed");
  return hold(nb::make_tuple(place, owner));
}

/// Returns one end of a copy as (address, array handle or 0), and the extent of an array: (row size
/// in bytes, number of rows, number of planes).
nb::object copy_end_of(nb::handle place) {
  static PyObject* const name = PyUnicode_InternFromString("_copy_end");  // of an OpaqueArray
  const nb::object method = nb::steal(PyObject_GetAttr(place.ptr(), name));
  if (!method.is_valid()) {
    PyErr_Clear();
    return nb::make_tuple(nb::make_tuple(static_cast<std::size_t>(address_of(place)), 0),
                          nb::none());
  }
  const nb::tuple end = nb::cast<nb::tuple>(method());
  return nb::make_tuple(nb::make_tuple(0, end[0]), end[1]);
}

/// Returns (value, element size in bytes) of an int in 0..255 or of a bytes-like object of 1, 2 or
/// 4 bytes.
nb::object memset_pattern(nb::handle value) {
  if (PyLong_Check(value.ptr()) != 0) {
    const long byte = PyLong_AsLong(value.ptr());
    if ((byte == -1 && PyErr_Occurred() != nullptr) || byte < 0 || byte > 255) {
      PyErr_Clear();
      PyErr_Format(PyExc_OverflowError,
                   "an int must be in 0..255, not %S; give bytes for a wider pattern", value.ptr());
      throw nb::python_error();
    }
    return nb::make_tuple(byte, 1);
  }
  if (PyObject_CheckBuffer(value.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "value must be an int or 1, 2 or 4 bytes, not %s",
                 Py_TYPE(value.ptr())->tp_name);
    throw nb::python_error();
  }
  const nb::object bytes = nb::steal(PyBytes_FromObject(value.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  MemsetParams params;
  params.set_pattern({reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes.ptr())),
                      static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))});
  return nb::make_tuple(params.value, params.element_size);
}

/// Returns (address, size in bytes, owner to keep until a copy is complete) of a Buffer or of host
/// memory.
nb::object linear_memory(nb::handle thing, bool writable) {
  if (const PyBuffer* const buffer = buffer_of(thing.ptr())) {
    if (buffer->buffer.is_closed()) throw InvalidStateError("the buffer is closed");
    return nb::make_tuple(static_cast<std::size_t>(buffer->buffer.handle()), buffer->buffer.size(),
                          nb::none());
  }
  const nb::object view = nb::steal(PyMemoryView_FromObject(thing.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  const Py_buffer& memory = *PyMemoryView_GET_BUFFER(view.ptr());
  if (writable && memory.readonly != 0) {
    PyErr_Format(PyExc_TypeError, "the destination is read-only: %s",
                 Py_TYPE(thing.ptr())->tp_name);
    throw nb::python_error();
  }
  if (PyBuffer_IsContiguous(&memory, 'C') == 0) {
    PyErr_Format(PyExc_ValueError, "host memory must be contiguous: it has shape %S and strides %S",
                 nb::object{view.attr("shape")}.ptr(), nb::object{view.attr("strides")}.ptr());
    throw nb::python_error();
  }
  return nb::make_tuple(reinterpret_cast<std::size_t>(memory.buf), memory.len, nb::borrow(thing));
}

}  // namespace

static void bind_graph_operands(nb::module_& m) {
  m.def("graph_address",
        [](nb::handle place) { return static_cast<std::size_t>(address_of(place)); });
  m.def("hold_operand", &held, "place"_a.none(), "owner"_a.none());
  m.def("copy_end", &copy_end_of, "place"_a.none());
  m.def("memset_pattern", &memset_pattern, "value"_a.none());
  m.def("linear_memory", &linear_memory, "thing"_a.none(), "writable"_a);
}
CUCORE_BIND(kBindGraph, bind_graph_operands)

}  // namespace cucore::python
