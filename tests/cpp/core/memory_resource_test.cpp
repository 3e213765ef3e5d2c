// SPDX-License-Identifier: Apache-2.0
// memory_resource_test.cpp: pools, and the devices that can use their memory.
#include "cucore/memory_resource.hpp"

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cucore/buffer.hpp"
#include "cucore/error.hpp"
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

TEST_F(MemoryPoolTest, PinnedMemoryIsUsedByHostAndDevice) {
  const Stream stream = Device{0}.create_stream();
  std::vector<std::shared_ptr<MemoryPool>> pools;
  try {
    pools = {MemoryPool::default_pinned(), MemoryPool::create_pinned({}),
             MemoryPool::create_pinned({.ipc_enabled = true})};
  } catch (const CUDAError& error) {
    if (error.code() != CUDA_ERROR_NOT_SUPPORTED) throw;
    GTEST_SKIP() << error.what();
  }
  for (const auto& pool : pools) {
    EXPECT_TRUE(pool->is_host_accessible());
    EXPECT_EQ(pool->access(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    Buffer buffer = Buffer::allocate(pool, 16, stream);
    buffer.fill(7, stream);
    stream.sync();
    EXPECT_EQ(reinterpret_cast<const unsigned char*>(buffer.handle())[15], 7);
  }
  EXPECT_EQ(pools[1]->options().location.type, CU_MEM_LOCATION_TYPE_HOST);
  EXPECT_EQ(pools[2]->options().location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  EXPECT_TRUE(pools[2]->is_ipc_enabled());
  EXPECT_EQ(MemoryPool::create_pinned({.numa_id = 0})->options().location.type,
            CU_MEM_LOCATION_TYPE_HOST_NUMA);
  EXPECT_THROW((void)MemoryPool::create_pinned({.numa_id = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace cucore
