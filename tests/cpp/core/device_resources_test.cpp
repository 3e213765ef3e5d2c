// SPDX-License-Identifier: Apache-2.0
// device_resources_test.cpp: parts of a device, and contexts on them.
#include "cucore/device_resources.hpp"

#include <vector>

#include "support.hpp"

namespace cucore {
namespace {

class DeviceResourcesTest : public testing::WithDevice {};

TEST_F(DeviceResourcesTest, ADeviceHasAllItsMultiprocessors) {
  const SMResource sm = DeviceResources{0}.sm();
  const auto all = Device{0}.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(sm.sm_count(), static_cast<unsigned>(all));
  EXPECT_GE(sm.sm_count(), sm.min_partition_size());
  EXPECT_EQ(DeviceResources{Context::primary(0)}.sm().sm_count(), sm.sm_count());
}

TEST_F(DeviceResourcesTest, AGreenContextHasTheMultiprocessorsOfItsGroup) {
  const SMResource sm = DeviceResources{0}.sm();
  if (sm.sm_count() < 2 * sm.min_partition_size()) GTEST_SKIP() << "too few multiprocessors";
  const std::vector<SMGroupOptions> groups{{.count = sm.min_partition_size()}};
  const auto [parts, rest] = sm.split(groups);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].sm_count() + rest.sm_count(), sm.sm_count());
  const std::vector<DeviceResource> resources{parts[0]};
  const Context context = create_context(0, resources);
  EXPECT_TRUE(context.is_green());
  EXPECT_EQ(DeviceResources{context}.sm().sm_count(), parts[0].sm_count());
}

TEST_F(DeviceResourcesTest, NoGroupsAndNoResourcesAreRefused) {
  EXPECT_THROW(static_cast<void>(DeviceResources{0}.sm().split({})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(create_context(0, {})), std::invalid_argument);
}

TEST_F(DeviceResourcesTest, TheLimitOfAWorkqueueIsPositive) {
  CUdevResource raw{};
  WorkqueueResource queues{raw};
  EXPECT_THROW(queues.set_concurrency_limit(0), std::invalid_argument);
  queues.set_concurrency_limit(4);
  queues.set_sharing_scope(WorkqueueSharingScope::green_ctx_balanced);
  EXPECT_EQ(queues.concurrency_limit(), 4u);
  EXPECT_EQ(queues.sharing_scope(), WorkqueueSharingScope::green_ctx_balanced);
}

}  // namespace
}  // namespace cucore
