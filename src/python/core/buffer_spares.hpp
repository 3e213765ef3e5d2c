// SPDX-License-Identifier: Apache-2.0
// buffer_spares.hpp: Buffer objects that were freed, to be used again.
#pragma once

#include "usual.hpp"

namespace cucore::python {

/// Allocating and freeing memory is mostly the making and freeing of a Python object. Buffers that
/// came from a pool of the driver are therefore kept when they are freed: their object as it is,
/// without a value. nanobind does the same for all classes, with more to look at.
class BufferSpares {
 public:
  /// An object whose value is to be made in place, or null when there is none.
  PyObject* take() noexcept {
    PyObject* const object = memory_line.first_spare;
    if (object == nullptr) return nullptr;
    memory_line.first_spare = next(object);
    --memory_line.spares;
    Py_SET_REFCNT(object, 1);
    return object;
  }
  /// Takes part in the freeing of the class's objects from now on, and releases what it has when
  /// the interpreter ends.
  void install(PyTypeObject* type);

 private:
  static void dealloc(PyObject* object);
  void let_go() noexcept;

  /// The next one, which an object names where its value will be.
  static PyObject*& next(PyObject* object) noexcept {
    return value_at<PyObject*>(object, usual.buffer_at);
  }

  static constexpr unsigned kMost = 64;
  bool is_ended_ = false;
  Py_ssize_t weak_references_ = 0;  // where an object has them
  destructor nanobinds_ = nullptr;  // how objects of the class are freed otherwise
};
extern constinit BufferSpares buffer_spares __attribute__((visibility("hidden")));

}  // namespace cucore::python
