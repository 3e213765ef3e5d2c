// SPDX-License-Identifier: Apache-2.0
// py_kernel.hpp: what a cuda.core.Kernel object holds.
#pragma once

#include <utility>

#include "binding.hpp"
#include "cucore/kernel.hpp"

namespace cucore::python {

struct PyKernel : Kernel {
  PyKernel(Kernel kernel) : Kernel{std::move(kernel)} {}  // NOLINT: a value of its own kind

  // What was asked for before, and is the same object ever after. Neither refers to this object:
  // the collector does not see through it.
  nb::object attributes_object;
  nb::object occupancy_object;
};

}  // namespace cucore::python
