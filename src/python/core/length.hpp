// SPDX-License-Identifier: Apache-2.0
// length.hpp: bytes from elsewhere that must have a certain length.
#pragma once

#include <cstddef>

#include "support.hpp"

namespace cucore::python {

/// Throws ValueError, with both lengths, when they differ.
inline void check_length(const char* what, std::size_t given, std::size_t wanted) {
  if (given == wanted) return;
  PyErr_Format(PyExc_ValueError, "%s has %zu bytes, not %zu", what, wanted, given);
  throw nb::python_error();
}

}  // namespace cucore::python
