// SPDX-License-Identifier: Apache-2.0
// frame.cpp: the memory, references and buffers of one call, and the arguments that need them:
// addresses and text.
#include <cstdlib>
#include <new>

#include "engine.hpp"

namespace cucore::bindings {

struct Frame::Node {
  enum class What { memory, reference, buffer } what;
  Node* next;
  PyObject* object;
  Py_buffer view;
};

void* Frame::take_heap(std::size_t bytes) {
  void* memory = std::calloc(1, sizeof(Node) + 16 + bytes);
  if (memory == nullptr) return PyErr_NoMemory(), nullptr;
  first_ = new (memory) Node{Node::What::memory, first_, nullptr, {}};
  const auto after =
      (reinterpret_cast<std::uintptr_t>(memory) + sizeof(Node) + 15) & ~std::uintptr_t{15};
  return reinterpret_cast<void*>(after);
}

bool Frame::hold(PyObject* object) {
  void* memory = std::malloc(sizeof(Node));
  if (memory == nullptr) return PyErr_NoMemory(), false;
  first_ = new (memory) Node{Node::What::reference, first_, Py_NewRef(object), {}};
  return true;
}

Py_buffer* Frame::buffer(PyObject* object, int flags) {
  void* memory = std::malloc(sizeof(Node));
  if (memory == nullptr) return PyErr_NoMemory(), nullptr;
  Node* node = new (memory) Node{Node::What::buffer, first_, nullptr, {}};
  if (PyObject_GetBuffer(object, &node->view, flags) < 0) {
    std::free(memory);
    return nullptr;
  }
  first_ = node;
  return &node->view;
}

void Frame::clear() {
  while (first_ != nullptr) {
    Node* node = std::exchange(first_, first_->next);
    if (node->what == Node::What::reference) Py_DECREF(node->object);
    if (node->what == Node::What::buffer) PyBuffer_Release(&node->view);
    std::free(node);
  }
}

namespace {

bool wrong_type(PyObject* value, const char* expected, const Where& where) {
  PyErr_Format(PyExc_TypeError, "%s%s%s must be %s, not %s", where.owner, where.joint, where.name,
               expected, Py_TYPE(value)->tp_name);
  return false;
}

bool has_index(PyObject* value) {
  const PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
  return number != nullptr && number->nb_index != nullptr;
}

/// Returns the address of a contiguous buffer.
bool buffer_address(PyObject* value, const Where& where, Frame& frame, std::uint64_t needed,
                    bool writes, Slot* out) {
  Py_buffer* view = frame.buffer(value, PyBUF_ANY_CONTIGUOUS | (writes ? PyBUF_WRITABLE : 0));
  if (view == nullptr && writes && PyBytes_Check(value) && PyBytes_GET_SIZE(value) > 1) {
    // A bytes object to be filled (b" " * size) is the documented usage of this API, although bytes
    // are immutable. Empty and one-byte objects, which the interpreter shares, are rejected.
    PyErr_Clear();
    view = frame.buffer(value, PyBUF_ANY_CONTIGUOUS);
  }
  if (view == nullptr) {
    PyErr_Clear();
    PyErr_Format(writes ? PyExc_ValueError : PyExc_BufferError,
                 "%s%s%s must be a contiguous%s buffer, not this %s", where.owner, where.joint,
                 where.name, writes ? " writable" : "", Py_TYPE(value)->tp_name);
    return false;
  }
  if (static_cast<std::uint64_t>(view->len) < needed) {
    PyErr_Format(PyExc_ValueError, "%s%s%s has %zd bytes, but the call uses %llu", where.owner,
                 where.joint, where.name, view->len, static_cast<unsigned long long>(needed));
    return false;
  }
  out->p = view->buf;
  return true;
}

}  // namespace

bool to_address(PyObject* value, const Where& where, Frame& frame, std::uint64_t needed,
                bool writes, Slot* out) {
  if (PyLong_Check(value)) [[likely]]
    return to_integer(value, Kind::u64, where, out);
  if (Py_IsNone(value)) {
    out->u = 0;
    return true;
  }
  if (is_handle(value)) {
    out->u = handle_value(reinterpret_cast<HandleObject*>(value));
    return true;
  }
  if (is_record(value)) {
    auto* record = reinterpret_cast<RecordObject*>(value);
    const std::uint64_t have = std::uint64_t{row_of(record->type).size} * record->count;
    if (have < needed) {
      PyErr_Format(PyExc_ValueError, "%s%s%s has %llu bytes, but the call uses %llu", where.owner,
                   where.joint, where.name, static_cast<unsigned long long>(have),
                   static_cast<unsigned long long>(needed));
      return false;
    }
    out->p = record->place;
    return true;
  }
  if (PyUnicode_Check(value)) return wrong_type(value, "an address or a buffer", where);
  if (PyObject_CheckBuffer(value)) {
    // A NumPy scalar is an integer that also has a (read-only) buffer.
    if (has_index(value)) {
      Py_buffer* view = frame.buffer(value, PyBUF_SIMPLE | PyBUF_WRITABLE);
      if (view == nullptr) {
        PyErr_Clear();
        return to_integer(value, Kind::u64, where, out);
      }
    }
    return buffer_address(value, where, frame, needed, writes, out);
  }
  if (PyObject_HasAttrString(value, "getPtr")) {
    Ref pointer{PyObject_CallMethod(value, "getPtr", nullptr)};
    return pointer && to_integer(pointer.get(), Kind::u64, where, out);
  }
  const PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
  if (number == nullptr || (number->nb_index == nullptr && number->nb_int == nullptr) ||
      PyFloat_Check(value)) {
    return wrong_type(value, "an address (int), a buffer or None", where);
  }
  return to_integer(value, Kind::u64, where, out);
}

bool to_text(PyObject* value, const Where& where, Frame& frame, const char** out) {
  if (Py_IsNone(value)) {
    *out = nullptr;
    return true;
  }
  Ref bytes;
  const bool is_string = PyUnicode_Check(value);
  if (!PyBytes_Check(value) && (is_string || PyObject_HasAttrString(value, "__fspath__"))) {
    Ref path = is_string ? Ref::borrow(value) : Ref{PyOS_FSPath(value)};
    if (!path) return false;
    bytes = PyUnicode_Check(path.get()) ? Ref{PyUnicode_AsUTF8String(path.get())} : std::move(path);
  } else if (PyBytes_Check(value)) {
    bytes = Ref::borrow(value);
  } else if (PyByteArray_Check(value)) {
    bytes = Ref{PyBytes_FromObject(value)};
  } else {
    return wrong_type(value, "bytes or str", where);
  }
  if (!bytes || !frame.hold(bytes.get())) return false;
  *out = PyBytes_AS_STRING(bytes.get());
  return true;
}

bool to_image(PyObject* value, const Where& where, Frame& frame, Slot* out) {
  if (PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value)) {
    const char* text = nullptr;
    if (!to_text(value, where, frame, &text)) return false;
    out->p = const_cast<char*>(text);
    return true;
  }
  if (PyLong_Check(value) || Py_IsNone(value) || is_handle(value) || !PyObject_CheckBuffer(value)) {
    return to_address(value, where, frame, 0, false, out);
  }
  if (!buffer_address(value, where, frame, 0, false, out)) return false;
  Ref copy{PyBytes_FromObject(value)};
  if (!copy) {
    PyErr_Clear();
    return true;
  }
  if (!frame.hold(copy.get())) return false;
  out->p = PyBytes_AS_STRING(copy.get());
  return true;
}

}  // namespace cucore::bindings
