// SPDX-License-Identifier: Apache-2.0
// immortal.hpp: objects without reference counting.
#pragma once

#include <Python.h>

#include <cstdint>

namespace cucore::python {

/// Makes a function of a module immortal in free-threaded Python, where threads that call the same
/// function would compete for its reference count. Only for the thread that made it, before another
/// thread can see it.
inline void make_immortal([[maybe_unused]] PyObject* function) noexcept {
#ifdef Py_GIL_DISABLED
  if (PyObject_GC_IsTracked(function) != 0) PyObject_GC_UnTrack(function);
  Py_SET_REFCNT(function, Py_ssize_t{UINT32_MAX} + 1);  // too large to be counted
#endif
}

}  // namespace cucore::python
