// SPDX-License-Identifier: Apache-2.0
// Sensors of the host.
#include <cmath>
#include <fstream>

#include "cpu/nvml/nvml.hpp"

namespace cucpu::nvml {

int temperature() {
  double highest = -300;
  for (int i = 0; i < 64; ++i) {
    std::ifstream file{"/sys/class/thermal/thermal_zone" + std::to_string(i) + "/temp"};
    double thousandths = 0;
    if (file >> thousandths) highest = std::fmax(highest, thousandths / 1000);
  }
  require(highest > -273, NVML_ERROR_NOT_SUPPORTED);
  return static_cast<int>(std::lround(highest));
}

}  // namespace cucpu::nvml
