// SPDX-License-Identifier: Apache-2.0
// keep_alive.hpp: ownership of Python objects by C++ objects.
#pragma once

#include <memory>

#include "nanobind/nanobind.h"

namespace cucore::python {

/// Releases a reference on any thread. No-op for null; leaks the reference if the interpreter is
/// finalizing.
void release_reference(PyObject* held) noexcept;

/// Keeps a Python object alive from C++. The garbage collector cannot traverse C++ objects, so all
/// kept objects are released when the module is destroyed: otherwise a function that a graph calls
/// would keep its module, and with that the graph, alive forever.
std::shared_ptr<void> keep_alive(nanobind::object object);

/// Returns the object given to keep_alive(). Borrowed; null after the module is destroyed.
PyObject* kept_object(const std::shared_ptr<void>& kept) noexcept;

/// For tp_traverse: visits the object given to keep_alive() if `kept` is its only owner. Skips all
/// other shared_ptr objects.
int visit_kept(const std::shared_ptr<void>& kept, visitproc visit, void* arg) noexcept;

/// Releases all kept objects, when the module is destroyed.
void release_all_kept() noexcept;
/// Returns whether release_all_kept() has run: addresses of kept objects that the driver has are
/// invalid.
bool are_all_released() noexcept;

}  // namespace cucore::python
