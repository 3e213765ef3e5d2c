// SPDX-License-Identifier: Apache-2.0
// location.hpp: conversion of memory locations.
#pragma once

#include <vector>

#include "cucore/location.hpp"
#include "support.hpp"

namespace cucore::python {

/// Converts a Device, its ordinal or a Host to a location; -1 is the host. Throws TypeError for
/// other objects.
Location location_argument(nb::handle place);
/// Converts one location for all of `count` buffers, or a sequence with one for each.
std::vector<Location> location_arguments(nb::handle places, std::size_t count);

}  // namespace cucore::python
