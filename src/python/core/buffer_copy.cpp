// SPDX-License-Identifier: Apache-2.0
// buffer_copy.cpp: copies and fills of cuda.core.Buffer.
#include "arguments.hpp"
#include "copy_buffers.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// A view of a host object's bytes for as long as this lives.
class HostView {
 public:
  HostView(PyObject* object, bool writable, const char* function) {
    if (PyObject_GetBuffer(object, &view_, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0) {
      if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "%s(): expected a Buffer or an object with the buffer protocol, not %s",
                     function, Py_TYPE(object)->tp_name);
      }
      throw nb::python_error();
    }
  }
  ~HostView() { PyBuffer_Release(&view_); }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

/// The memory of an open buffer for a call without the GIL: another thread may close the buffer
/// meanwhile, and its memory then stays until the call is over. Made and ended with the GIL.
class Used {
 public:
  explicit Used(PyObject* buffer) : buffer_{buffer} {
    const nb::ft_object_guard alone{nb::handle{buffer}};
    PyBuffer& open = open_buffer(buffer);
    memory = Buffer::view(open.buffer.handle(), open.buffer.size());
    ++open.views;
  }
  ~Used() {
    const nb::ft_object_guard alone{nb::handle{buffer_}};
    self_of<PyBuffer>(buffer_).end_view();
  }
  Used(const Used&) = delete;
  Used& operator=(const Used&) = delete;
  Buffer memory;

 private:
  PyObject* buffer_;
};

bool is_pageable(const void* address) {
  return detail::memory_type(reinterpret_cast<CUdeviceptr>(address)).value_or(0) == 0;
}

/// TypeError for options that are neither None nor a CopyOptions.
void check_options(PyObject* options, const char* function) {
  if (options == nullptr || options == Py_None) return;
  static constinit Member type{"cuda.core._copy", "CopyOptions"};
  if (nb::isinstance(nb::handle{options}, *type)) return;
  PyErr_Format(PyExc_TypeError, "%s(): options must be a CopyOptions or None, not %s", function,
               Py_TYPE(options)->tp_name);
  throw nb::python_error();
}

/// copy_batch() with one pair, for CopyOptions.
bool copy_with_options(PyObject* self, PyObject* other, PyObject* stream, PyObject* options,
                       bool to) {
  if (options == nullptr || options == Py_None) return false;
  nb::list from;
  nb::list into;
  from.append(nb::handle{to ? self : other});
  into.append(nb::handle{to ? other : self});
  copy_buffers(nb::handle{stream}, from, into, nb::handle{options});
  return true;
}

/// A captured copy or fill runs later, so the graph keeps both sides; `other` may be null.
void retain_if_captured(PyObject* stream, PyObject* self, PyObject* other) {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<Stream>().ptr());
  if (Py_TYPE(stream) == type) {
    // A capture without a GraphBuilder: no Graph object can keep the host's memory, so it is never
    // freed; a launch would otherwise write to memory that Python has reused.
    if (other == nullptr || buffer_of(other) != nullptr || !self_of<Stream>(stream).is_capturing())
      return;
    if (PyMemoryView_FromObject(other) == nullptr) throw nb::python_error();
    return;
  }
  nb::object held = nb::none();
  if (other != nullptr) {
    held =
        buffer_of(other) != nullptr ? nb::borrow(other) : nb::steal(PyMemoryView_FromObject(other));
    if (!held.is_valid()) throw nb::python_error();
  }
  PyObject* const things[] = {self, held.ptr()};
  retain_in_graph(stream, things, 2);
}

/// What a graph allocates is the driver's to know as long as the graph, or a launch of it, has it.
/// After that a driver takes the address for the host's, and would touch it: a process may end so.
void check_graph_memory(const PyBuffer& buffer, const Stream& stream) {
  if (buffer.capture == 0) [[likely]]
    return;
  if (stream.capture_id() == buffer.capture) return;
  if (detail::memory_type(buffer.buffer.handle())) return;
  throw InvalidStateError(
      "the buffer's memory belongs to a graph that is gone, or that has not been launched");
}

void copy(PyObject* into, PyObject* of, const Stream& stream) {
  PyBuffer& target = open_buffer(into);
  const PyBuffer& source = open_buffer(of);
  if (target.is_plain && source.is_plain && may_keep_lock(stream.handle())) {
    target.buffer.copy_from(source.buffer, stream);
  } else {
    const Stream held = stream;
    Used to{into};
    const Used from{of};
    const WithoutGil release;  // pageable memory is read, or filled, before the call returns
    to.memory.copy_from(from.memory, held);
  }
}

}  // namespace

PyObject* buffer_copy_from(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames) {
  static const Names<3> names{"src", "stream", "options"};
  std::array<PyObject*, 3> given;
  parse("copy_from", names, 1, 2, args, nargs, kwnames, given);
  PyBuffer& target = writable_buffer(self);
  Stream storage;
  const Stream& stream = stream_argument(given[1], "copy_from", storage);
  check_options(given[2], "copy_from");
  if (buffer_of(given[0]) != nullptr) {
    PyBuffer& source = open_buffer(given[0]);
    check_graph_memory(target, stream);
    check_graph_memory(source, stream);
    if (!copy_with_options(self, given[0], given[1], given[2], false)) copy(self, given[0], stream);
    retain_if_captured(given[1], self, given[0]);
    Py_RETURN_NONE;
  }
  check_graph_memory(target, stream);
  const HostView view{given[0], false, "copy_from"};
  const std::span<const std::byte> bytes = view.bytes();
  {
    const Stream held = stream;  // another thread may close the object meanwhile
    Used to{self};
    WithoutGil release;  // a pageable source is read before the call returns
    to.memory.copy_from(bytes, held);
  }
  retain_if_captured(given[1], self, given[0]);
  Py_RETURN_NONE;
}

PyObject* buffer_copy_to(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames) {
  static const Names<3> names{"dst", "stream", "options"};
  std::array<PyObject*, 3> given;
  parse("copy_to", names, 1, 0, args, nargs, kwnames, given);
  if (given[1] == nullptr) {
    PyErr_SetString(PyExc_TypeError, "copy_to() missing required keyword-only argument: 'stream'");
    throw nb::python_error();
  }
  PyBuffer& source = open_buffer(self);
  Stream storage;
  const Stream& stream = stream_argument(given[1], "copy_to", storage);
  check_options(given[2], "copy_to");
  check_graph_memory(source, stream);
  nb::object target;
  if (given[0] == nullptr || given[0] == Py_None) {
    if (!source.resource.is_valid()) {
      throw nb::value_error(
          "copy_to(): give a destination: this buffer has no memory resource to allocate one from");
    }
    nb::object size = nb::steal(PyLong_FromSize_t(source.buffer.size()));
    target = allocate_from(source.resource, native_object(source.resource), size.ptr(), given[1],
                           "copy_to");
  } else {
    target = nb::borrow(given[0]);
  }
  if (buffer_of(target.ptr()) != nullptr) {
    PyBuffer& into = writable_buffer(target.ptr());
    check_graph_memory(into, stream);
    if (!copy_with_options(self, target.ptr(), given[1], given[2], true))
      copy(target.ptr(), self, stream);
    retain_if_captured(given[1], self, target.ptr());
    return target.release().ptr();
  }
  const HostView view{target.ptr(), true, "copy_to"};
  const std::span<std::byte> bytes = view.bytes();
  {
    const Stream held = stream;
    // Pageable memory has no owner the device could wait for: it is filled when this returns. The
    // wait for what comes before is ours, not the driver's, so that Ctrl-C gets out of it.
    const bool waits = !held.is_capturing() && is_pageable(bytes.data());
    const Used from{self};
    if (waits) sync_stream(held.handle());
    {
      WithoutGil release;
      from.memory.copy_to(bytes, held);
    }
    if (waits) sync_stream(held.handle());
  }
  retain_if_captured(given[1], self, target.ptr());
  return target.release().ptr();
}

PyObject* buffer_fill(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<2> names{"value", "stream"};
  std::array<PyObject*, 2> given;
  parse("fill", names, 1, 2, args, nargs, kwnames, given);
  PyBuffer& target = writable_buffer(self);
  Stream storage;
  const Stream& stream = stream_argument(given[1], "fill", storage);
  check_graph_memory(target, stream);
  if (PyLong_Check(given[0]) != 0 && !PyObject_CheckBuffer(given[0])) {
    const long value = PyLong_AsLong(given[0]);
    if ((value == -1 && PyErr_Occurred() != nullptr) || value < 0 || value > 255) {
      PyErr_Clear();
      PyErr_Format(PyExc_OverflowError,
                   "fill(): an int must be in 0..255, not %R; give bytes for a wider pattern",
                   given[0]);
      throw nb::python_error();
    }
    if (may_keep_lock(stream.handle())) {
      target.buffer.fill(static_cast<unsigned char>(value), stream);
    } else {
      const Stream held = stream;
      Used to{self};
      WithoutGil release;  // a full queue waits for the device, whose host callbacks need the GIL
      to.memory.fill(static_cast<unsigned char>(value), held);
    }
    retain_if_captured(given[1], self, nullptr);
    Py_RETURN_NONE;
  }
  if (PyObject_CheckBuffer(given[0]) == 0) {
    PyErr_Format(PyExc_TypeError, "fill(): value must be an int or 1, 2 or 4 bytes, not %s",
                 Py_TYPE(given[0])->tp_name);
    throw nb::python_error();
  }
  const HostView view{given[0], false, "fill"};
  {
    const Stream held = stream;
    const std::span<const std::byte> pattern = view.bytes();
    Used to{self};
    WithoutGil release;
    to.memory.fill(pattern, held);
  }
  retain_if_captured(given[1], self, nullptr);
  Py_RETURN_NONE;
}

}  // namespace cucore::python
