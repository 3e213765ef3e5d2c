// SPDX-License-Identifier: Apache-2.0
// buffer_free_list.cpp: a free list of Python Buffer objects.
#include "buffer_free_list.hpp"

#include "python/at_exit.hpp"

namespace cucore::python {

constinit BufferFreeList buffer_free_list;

void BufferFreeList::dealloc(PyObject* object) {
  BufferFreeList& self = buffer_free_list;
  // Other objects may have more to them: attributes of a derived class, what nanobind keeps for
  // them. All of this class have a value: it is made before they are (wrap() and buffer.cpp).
  if (Py_TYPE(object) != fast_path_types.buffer_type || allocation_fast_path.free_count == kMost ||
      self.is_ended_)
    return self.nanobinds_(object);
  auto& value = value_at<PyBuffer>(object, fast_path_types.buffer_at);
  if (!value.is_pooled) return self.nanobinds_(object);
  PyObject_GC_UnTrack(object);  // for good: it refers to nothing that the collector follows
  if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + self.weak_references_) !=
      nullptr) [[unlikely]]
    PyObject_ClearWeakRefs(object);
  if (value.is_bare()) [[likely]]
    value.resource.reset();
  else
    value.~PyBuffer();
  next(object) = std::exchange(allocation_fast_path.first_free, object);
  ++allocation_fast_path.free_count;
}

void BufferFreeList::install([[maybe_unused]] PyTypeObject* type) {
#if !defined(Py_GIL_DISABLED) && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
  if (type->tp_weaklistoffset <= 0) return;
  weak_references_ = type->tp_weaklistoffset;
  nanobinds_ = type->tp_dealloc;
  type->tp_dealloc = dealloc;
  at_exit([] { buffer_free_list.release(); });
#endif
}

void BufferFreeList::release() noexcept {
  is_ended_ = true;
  while (PyObject* const object = take()) {
    Py_SET_REFCNT(object, 0);
    nb::inst_set_state(object, false, false);  // there is no value to destroy
    nanobinds_(object);
  }
}

}  // namespace cucore::python
