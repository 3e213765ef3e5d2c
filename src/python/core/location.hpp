// SPDX-License-Identifier: Apache-2.0
// location.hpp: places of memory as arguments.
#pragma once

#include <vector>

#include "cucore/location.hpp"
#include "support.hpp"

namespace cucore::python {

/// The place a Device, its number or a Host stands for; -1 is the host. TypeError for anything
/// else.
Location location_argument(nb::handle place);
/// One place for all of `count` buffers, or a sequence with one each.
std::vector<Location> location_arguments(nb::handle places, std::size_t count);

}  // namespace cucore::python
