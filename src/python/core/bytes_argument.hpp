// SPDX-License-Identifier: Apache-2.0
// bytes_argument.hpp: checks of the length of bytes arguments.
#pragma once

#include <cstddef>
#include <span>

#include "support.hpp"

namespace cucore::python {

/// Returns a view of a bytes object, which must outlive it.
inline std::span<const std::byte> bytes_of(const nb::bytes& object) {
  return {reinterpret_cast<const std::byte*>(object.c_str()), object.size()};
}

/// Throws ValueError, with both lengths, if they differ.
inline void check_length(const char* what, std::size_t given, std::size_t wanted) {
  if (given == wanted) return;
  PyErr_Format(PyExc_ValueError, "%s has %zu bytes, not %zu", what, wanted, given);
  throw nb::python_error();
}

}  // namespace cucore::python
