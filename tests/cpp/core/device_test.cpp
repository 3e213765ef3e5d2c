// SPDX-License-Identifier: Apache-2.0
// device_test.cpp: devices and their facts.
#include "cucore/device.hpp"

#include "support.hpp"

namespace cucore {
namespace {

using DeviceTest = testing::WithDevice;

TEST_F(DeviceTest, ADeviceThatDoesNotExistIsNamed) {
  try {
    Device{99};
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_NE(std::string{error.what()}.find("99"), std::string::npos);
  }
}

TEST_F(DeviceTest, FactsAgreeWithEachOther) {
  const Device device{0};
  const auto [major, minor] = device.compute_capability();
  EXPECT_EQ(device.arch(), std::to_string(major) + std::to_string(minor));
  EXPECT_EQ(device.uuid().size(), 36u);
  EXPECT_FALSE(device.name().empty());
  EXPECT_GT(device.total_memory(), 0u);
  EXPECT_EQ(device.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
  EXPECT_EQ(Device::all().size(), static_cast<std::size_t>(Device::count()));
  EXPECT_EQ(Device::current(), device);
}

}  // namespace
}  // namespace cucore
