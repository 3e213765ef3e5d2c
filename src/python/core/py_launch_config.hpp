// SPDX-License-Identifier: Apache-2.0
// py_launch_config.hpp: what a cuda.core.LaunchConfig object holds.
#pragma once

#include "binding.hpp"
#include "cucore/launch.hpp"

namespace cucore::python {

struct PyLaunchConfig : LaunchConfig {
  PyLaunchConfig(const LaunchConfig& config)  // NOLINT: a value of its own kind
      : LaunchConfig{config} {}

  // Made when first asked for: most are launched and never looked at.
  nb::object grid_object;
  nb::object block_object;
};

}  // namespace cucore::python
