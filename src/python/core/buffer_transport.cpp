// SPDX-License-Identifier: Apache-2.0
// buffer_transport.cpp: buffers that go to other processes, and those that come from them.
#include <nanobind/stl/string.h>

#include <memory>
#include <span>
#include <string>

#include "bytes_argument.hpp"
#include "core/by_value.hpp"
#include "cucore/ipc.hpp"
#include "py_buffer.hpp"

namespace cucore::python {

void bind_buffer_transport(nb::module_& m) {
  // Memory with another owner, for a buffer that was sent.
  m.def(
      "buffer_in_place",
      [](nb::handle ptr, nb::handle size, nb::handle owner, bool readonly) {
        nb::object made =
            buffer_from_handle(nb::type<PyBuffer>(), ptr, size, nb::none(), owner, nb::handle{});
        self_of<PyBuffer>(made.ptr()).readonly = readonly;
        return made;
      },
      "ptr"_a, "size"_a, "owner"_a, "readonly"_a);
  // Copies between a buffer and host memory of its size, on any thread and in any context.
  const auto host = [](nb::handle object, bool writable) {
    Py_buffer view{};
    if (PyObject_GetBuffer(object.ptr(), &view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
      throw nb::python_error();
    return std::unique_ptr<Py_buffer, void (*)(Py_buffer*)>{new Py_buffer{view}, [](Py_buffer* v) {
                                                              PyBuffer_Release(v);
                                                              delete v;
                                                            }};
  };
  m.def("fetch_buffer", [host](nb::handle buffer, nb::handle into) {
    const nb::object held = hold_memory(buffer.ptr());
    const Buffer& from = open_buffer(buffer.ptr()).buffer;
    const auto view = host(into, true);
    const std::span bytes{static_cast<std::byte*>(view->buf), static_cast<std::size_t>(view->len)};
    const WithoutGil unlocked;
    cucore::detail::fetch(from, bytes);
  });
  m.def("store_buffer", [host](nb::handle buffer, nb::handle from) {
    const nb::object held = hold_memory(buffer.ptr());
    const Buffer& into = writable_buffer(buffer.ptr()).buffer;
    const auto view = host(from, false);
    const std::span bytes{static_cast<const std::byte*>(view->buf),
                          static_cast<std::size_t>(view->len)};
    const WithoutGil unlocked;
    cucore::detail::store(into, bytes);
  });
  m.def("register_host", [host](nb::handle object, bool readonly) {
    const auto view = host(object, false);
    const WithoutGil unlocked;
    cucore::detail::register_host(
        {static_cast<std::byte*>(view->buf), static_cast<std::size_t>(view->len)}, readonly);
  });
  m.def("unregister_host", [host](nb::handle object) {
    const auto view = host(object, false);
    const WithoutGil unlocked;
    cucore::detail::unregister_host(static_cast<std::byte*>(view->buf));
  });
  m.def("wait_for_buffer", [](nb::handle buffer) {
    const nb::object held = hold_memory(buffer.ptr());
    const Buffer& value = open_buffer(buffer.ptr()).buffer;
    const WithoutGil unlocked;
    cucore::detail::wait_for(value);
  });
  // Closes a buffer without giving its memory back: something else has taken it over.
  m.def("untrack_buffer", [](nb::handle buffer) {
    PyBuffer& b = open_buffer(buffer.ptr());
    b.settle();
    b.buffer.release();
    b.resource.reset();
  });
  // The parts of a descriptor that came from another process: ValueError where they cannot be one.
  m.def("ipc_buffer_parts", [](nb::bytes payload, nb::int_ size, const std::string& kind) {
    const int overflow = [&] {
      int found = 0;
      const long long value = PyLong_AsLongLongAndOverflow(size.ptr(), &found);
      return value < 0 && found == 0 ? -1 : found;
    }();
    if (overflow < 0) {
      PyErr_Format(PyExc_ValueError, "the size of a buffer cannot be negative: %S", size.ptr());
      throw nb::python_error();
    }
    (void)IPCBufferDescriptor::from_parts(bytes_of(payload), 0, kind);
    return nb::make_tuple(payload, size, kind);
  });
  m.def("ipc_event_parts", [](nb::bytes handle, bool blocking_sync) {
    (void)ipc_event_handle(bytes_of(handle));
    return nb::make_tuple(handle, blocking_sync);
  });
}
CUCORE_BIND(kBindMemory, bind_buffer_transport)

}  // namespace cucore::python
