// SPDX-License-Identifier: Apache-2.0
// binding.hpp: registration of the classes and functions of the extension module cuda.core._core.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace cucore::python {

/// An annotation of classes whose objects are created and destroyed frequently: enables nanobind's
/// free list. Older versions have none.
#if NB_VERSION_MAJOR > 3 || (NB_VERSION_MAJOR == 3 && NB_VERSION_MINOR >= 1)
#define CUCORE_POOLED nb::pooled(64),
#else
#define CUCORE_POOLED
#endif

using BindFunction = void (*)(nb::module_&);

/// Adds a function to the list that module initialisation runs, lowest order first.
struct Registration {
  Registration(int order, BindFunction function);
};

/// The order of registration: a base class before derived classes, a type before signatures that
/// name it.
enum BindOrder : int {
  kBindErrors = 0,
  kBindDriver = 5,
  kBindDevice = 10,
  kBindStream = 20,
  kBindMemory = 30,
  kBindCode = 40,  // programs, object code, kernels, linkers
  kBindLaunch = 50,
  kBindGraph = 60,
  kBindRest = 90,
};

}  // namespace cucore::python

/// At file scope after `void bind_x(nb::module_& m)`: CUCORE_BIND(kBindStream, bind_stream)
#define CUCORE_BIND(order, function) \
  static const ::cucore::python::Registration registration_of_##function{order, function};
