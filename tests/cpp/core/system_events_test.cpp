// SPDX-License-Identifier: Apache-2.0
// system_events_test.cpp: waiting for what happens to GPUs.
#include "cucore/system_events.hpp"

#include <array>

#include "system_support.hpp"

namespace cucore {
namespace {

using testing::first_gpu;
using testing::SystemTest;

TEST_F(SystemTest, WaitingForEventsEndsWithNothing) {
  const system::Device found = first_gpu();
  // A GPU that works changes its clocks and power states at any time; it has no critical errors.
  constexpr std::uint64_t kCriticalErrors = 8;  // nvmlEventTypeXidCriticalError
  const std::uint64_t supported = found.get_supported_event_types() & kCriticalErrors;
  try {
    const system::DeviceEvents events{found, supported};
    EXPECT_FALSE(events.wait(1));
  } catch (const NVMLError& error) {
    EXPECT_EQ(error.name(), "NVML_ERROR_NOT_SUPPORTED") << error.what();
  }
  try {
    const std::array kinds{system::SystemEventType::bind, system::SystemEventType::unbind};
    const system::SystemEvents events{kinds};
    EXPECT_TRUE(events.wait(1).empty());
  } catch (const NVMLError& error) {
    EXPECT_TRUE(error.name() == "NVML_ERROR_NOT_SUPPORTED" ||
                error.name() == "NVML_ERROR_NO_PERMISSION")
        << error.what();
  }
}

}  // namespace
}  // namespace cucore
