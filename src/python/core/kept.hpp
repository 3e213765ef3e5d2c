// SPDX-License-Identifier: Apache-2.0
// kept.hpp: Python objects that objects of C++ hold.
#pragma once

#include <memory>

#include "nanobind/nanobind.h"

namespace cucore::python {

/// Gives a reference back on any thread; not at all once Python is gone. Null is fine.
void let_go(PyObject* held) noexcept;

/// Keeps a Python object alive from C++. The collector does not see through C++, so what is kept is
/// released when the module ends: else a function that a graph calls would keep the module it was
/// written in, and with that the graph, for ever.
std::shared_ptr<void> keep_alive(nanobind::object object);

/// What keep_alive() was given: borrowed, null once the module has ended.
PyObject* kept_object(const std::shared_ptr<void>& kept) noexcept;

/// For tp_traverse: visits the object given to keep_alive() if `kept` is its only owner. Skips all
/// other shared_ptr objects.
int visit_kept(const std::shared_ptr<void>& kept, visitproc visit, void* arg) noexcept;

/// Lets go of all that is kept: for the end of the module.
void let_go_of_all() noexcept;
/// True from then on: addresses of kept objects that the driver was given name nothing any more.
bool all_is_let_go() noexcept;

}  // namespace cucore::python
