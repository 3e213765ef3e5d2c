// SPDX-License-Identifier: Apache-2.0
// buffer_spares.cpp: Buffer objects that were freed, to be used again.
#include "buffer_spares.hpp"

#include "python/at_exit.hpp"

namespace cucore::python {

constinit BufferSpares buffer_spares;

void BufferSpares::dealloc(PyObject* object) {
  BufferSpares& self = buffer_spares;
  // Other objects may have more to them: attributes of a derived class, what nanobind keeps for
  // them. All of this class have a value: it is made before they are (wrap() and buffer.cpp).
  if (Py_TYPE(object) != usual.buffer_type || memory_line.spares == kMost || self.is_ended_)
    return self.nanobinds_(object);
  auto& value = value_at<PyBuffer>(object, usual.buffer_at);
  if (!value.is_pooled) return self.nanobinds_(object);
  PyObject_GC_UnTrack(object);  // for good: it refers to nothing that the collector follows
  if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + self.weak_references_) !=
      nullptr) [[unlikely]]
    PyObject_ClearWeakRefs(object);
  if (value.is_bare()) [[likely]]
    value.resource.reset();
  else
    value.~PyBuffer();
  next(object) = std::exchange(memory_line.first_spare, object);
  ++memory_line.spares;
}

void BufferSpares::install([[maybe_unused]] PyTypeObject* type) {
#if !defined(Py_GIL_DISABLED) && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
  if (type->tp_weaklistoffset <= 0) return;
  weak_references_ = type->tp_weaklistoffset;
  nanobinds_ = type->tp_dealloc;
  type->tp_dealloc = dealloc;
  at_exit([] { buffer_spares.let_go(); });
#endif
}

void BufferSpares::let_go() noexcept {
  is_ended_ = true;
  while (PyObject* const object = take()) {
    Py_SET_REFCNT(object, 0);
    nb::inst_set_state(object, false, false);  // there is no value to destroy
    nanobinds_(object);
  }
}

}  // namespace cucore::python
