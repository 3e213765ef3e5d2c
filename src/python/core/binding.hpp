// SPDX-License-Identifier: Apache-2.0
// binding.hpp: what every file of the cuda.core._core extension shares: how a class registers
// itself.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace cucore::python {

/// An annotation of classes whose objects come and go quickly: freed ones are used again. Older
/// nanobind has no such thing.
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

/// Order of registration: a base class before what derives from it, a type before signatures that
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
