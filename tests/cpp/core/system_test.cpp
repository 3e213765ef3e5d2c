// SPDX-License-Identifier: Apache-2.0
// system_test.cpp: versions and pairs of GPUs, as NVML sees them.
#include "cucore/system.hpp"

#include "cucore/driver.hpp"
#include "system_support.hpp"

namespace cucore {
namespace {

using testing::first_gpu;
using testing::SystemTest;

TEST_F(SystemTest, VersionsAreNumbers) {
  EXPECT_GE(system::get_user_mode_driver_version().front(), 12);
  EXPECT_GE(system::get_kernel_mode_driver_version().front(), 500);
  EXPECT_GE(system::get_nvml_version().front(), 12);
  if (driver_info().kind == DeviceKind::cpu) {
    EXPECT_EQ(system::get_driver_branch(), "cucore");
  }
}

TEST_F(SystemTest, NeighboursAreKnown) {
  EXPECT_FALSE(first_gpu().get_cpu_affinity().empty());
  const auto all = system::Device::get_all_devices();
  if (all.size() > 1) {
    (void)system::get_topology_common_ancestor(all[0], all[1]);
    (void)system::get_p2p_status(all[0], all[1], system::GpuP2PCapsIndex::read);
  }
}

}  // namespace
}  // namespace cucore
