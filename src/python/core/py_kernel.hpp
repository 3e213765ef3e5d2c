// SPDX-License-Identifier: Apache-2.0
// py_kernel.hpp: the value of a cuda.core.Kernel object.
#pragma once

#include <utility>

#include "binding.hpp"
#include "cucore/kernel.hpp"

namespace cucore::python {

struct PyKernel : Kernel {
  PyKernel(Kernel kernel) : Kernel{std::move(kernel)} {}  // NOLINT: implicit conversion intended

  // Cached on first access. Neither may refer to this object, which the garbage collector does not
  // traverse.
  nb::object attributes_object;
  nb::object occupancy_object;
};

}  // namespace cucore::python
