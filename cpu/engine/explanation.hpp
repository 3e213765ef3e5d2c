// SPDX-License-Identifier: Apache-2.0
// cpu/engine/explanation.hpp: what a compilation tells about a kernel when it is asked to.
#pragma once

#include <string>

#include "cpu/engine/simt/remarks.hpp"
#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu {

struct Explanation {
  std::string path;     ///< how the kernel runs, as CUCORE_CPU_REPORT says it
  std::string refusal;  ///< why there is no vector code; empty if there is
  simt::Report report;
  simt::Remarks remarks;
  std::string assembly;
};

}  // namespace cucpu
