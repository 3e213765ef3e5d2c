// SPDX-License-Identifier: Apache-2.0
// system.hpp: the registration functions of cuda.core.system, in order.
#pragma once

#include "support.hpp"

namespace cucore::python {

void bind_system_parts(nb::module_& m);
void bind_system_device(nb::module_& m);
void bind_system_events(nb::module_& m);

}  // namespace cucore::python
