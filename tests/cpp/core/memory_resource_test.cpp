// SPDX-License-Identifier: Apache-2.0
// memory_resource_test.cpp: pools, and the devices that can use their memory.
#include "cucore/memory_resource.hpp"

#include <array>
#include <stdexcept>

#include "support.hpp"

namespace cucore {
namespace {

class MemoryPoolTest : public testing::WithDevice {};

TEST_F(MemoryPoolTest, PeersAreTheOtherDevices) {
  const auto pool = MemoryPool::create({});
  EXPECT_TRUE(pool->peer_accessible_by().empty());
  pool->add_peer_accessible_by(0);  // its own device
  pool->remove_peer_accessible_by(0);
  const std::array own{0};
  pool->set_peer_accessible_by(own);
  EXPECT_TRUE(pool->peer_accessible_by().empty());
  EXPECT_THROW(pool->add_peer_accessible_by(Device::count()), std::out_of_range);
  if (Device::count() < 2) return;
  if (!Device{1}.can_access_peer(Device{0})) {
    EXPECT_THROW(pool->add_peer_accessible_by(1), std::invalid_argument);
    return;
  }
  pool->add_peer_accessible_by(1);
  EXPECT_EQ(pool->peer_accessible_by(), std::vector<int>{1});
  pool->set_peer_accessible_by({});
  EXPECT_TRUE(pool->peer_accessible_by().empty());
}

}  // namespace
}  // namespace cucore
