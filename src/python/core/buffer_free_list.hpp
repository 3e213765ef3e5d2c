// SPDX-License-Identifier: Apache-2.0
// buffer_free_list.hpp: a free list of Python Buffer objects.
#pragma once

#include "fast_path_types.hpp"

namespace cucore::python {

/// Creating and freeing the Python object is most of the overhead of an allocation. Freed objects
/// of buffers from a pool of the driver are therefore kept, without a value. nanobind does the same
/// for all classes, with more tests.
class BufferFreeList {
 public:
  /// Returns an object whose value must be constructed in place, or null if the list is empty.
  PyObject* take() noexcept {
    PyObject* const object = allocation_fast_path.first_free;
    if (object == nullptr) return nullptr;
    allocation_fast_path.first_free = next(object);
    --allocation_fast_path.free_count;
    Py_SET_REFCNT(object, 1);
    return object;
  }
  /// Installs the list in the deallocation of the class; clears it at interpreter exit.
  void install(PyTypeObject* type);

 private:
  static void dealloc(PyObject* object);
  void release() noexcept;

  /// The next one, which an object names where its value will be.
  static PyObject*& next(PyObject* object) noexcept {
    return value_at<PyObject*>(object, fast_path_types.buffer_at);
  }

  static constexpr unsigned kMost = 64;
  bool is_ended_ = false;
  Py_ssize_t weak_references_ = 0;  // where an object has them
  destructor nanobinds_ = nullptr;  // how objects of the class are freed otherwise
};
extern constinit BufferFreeList buffer_free_list __attribute__((visibility("hidden")));

}  // namespace cucore::python
