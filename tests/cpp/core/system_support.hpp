// SPDX-License-Identifier: Apache-2.0
// system_support.hpp: what the tests of cucore::system share.
#pragma once

#include <string>

#include "cucore/system.hpp"
#include "support.hpp"

namespace cucore::testing {

/// Skips where there is no NVML: containers may have the driver alone.
class SystemTest : public WithDevice {
 protected:
  void SetUp() override {
    WithDevice::SetUp();
    if (IsSkipped()) return;
    try {
      (void)system::get_num_devices();
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

/// The first of CUDA's GPUs.
inline system::Device first_gpu() { return system::Device::from_cuda_device(Device{0}); }

/// An answer, or NVML's word that this device has no such thing.
template <class Ask>
void expect_an_answer(Ask ask, const char* what) {
  try {
    static_cast<void>(ask());
  } catch (const NVMLError& error) {
    EXPECT_TRUE(error.name() == "NVML_ERROR_NOT_SUPPORTED" ||
                error.name() == "NVML_ERROR_FUNCTION_NOT_FOUND" ||
                error.name() == "NVML_ERROR_NOT_FOUND" || error.name() == "NVML_ERROR_NOT_READY" ||
                error.name() == "NVML_ERROR_NO_PERMISSION" ||
                error.name() == "NVML_ERROR_INVALID_ARGUMENT")
        << what << ": " << error.what();
  }
}

}  // namespace cucore::testing
