// SPDX-License-Identifier: Apache-2.0
// py_launch_config.hpp: the value of a cuda.core.LaunchConfig object.
#pragma once

#include "binding.hpp"
#include "cucore/launch.hpp"

namespace cucore::python {

struct PyLaunchConfig : LaunchConfig {
  PyLaunchConfig(const LaunchConfig& config)  // NOLINT: implicit conversion intended
      : LaunchConfig{config} {}

  // Created on first access: most configurations are only launched.
  nb::object grid_object;
  nb::object block_object;
};

}  // namespace cucore::python
