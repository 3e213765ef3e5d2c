// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/resident_pool_test.cpp: the memory of resident clusters.
#include "cpu/engine/run/resident_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace cucpu::test {
namespace {

Code code(std::uint32_t shared, std::uint32_t scratch) {
  Code code;
  code.static_shared_bytes = shared;
  code.dynamic_shared_offset = shared;
  code.scratch_bytes = scratch;
  return code;
}

LaunchShape shape(std::uint32_t blocks, std::uint32_t dynamic_shared = 0) {
  LaunchShape shape;
  shape.grid = {16, 1, 1};
  shape.block = {32, 1, 1};
  shape.cluster = {blocks, 1, 1};
  shape.dynamic_shared_bytes = dynamic_shared;
  return shape;
}

TEST(ResidentPool, BlocksOfAClusterHaveSharedMemoryOfTheirOwn) {
  ResidentPool pool;
  Cluster* const cluster = pool.acquire(code(3000, 100), shape(4, 5000));
  ASSERT_EQ(cluster->blocks.size(), 4U);
  std::set<std::byte*> scratch;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::byte* const shared = cluster->shared[rank];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared) % 1024, 0U);
    std::memset(shared - kSharedPadding, static_cast<int>(rank), 8000 + 2 * kSharedPadding);
    EXPECT_TRUE(pool.is_shared_address(reinterpret_cast<std::uintptr_t>(shared)));
    scratch.insert(cluster->blocks[rank]->scratch);
  }
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(static_cast<std::size_t>(cluster->shared[rank][7999]), rank);
  EXPECT_EQ(scratch.size(), 4U);
  EXPECT_FALSE(pool.is_shared_address(reinterpret_cast<std::uintptr_t>(&pool)));
}

TEST(ResidentPool, AReleasedClusterIsReusedAndGrowsWhenCodeNeedsMore) {
  ResidentPool pool;
  Cluster* const first = pool.acquire(code(100, 64), shape(1));
  pool.release(first);
  Cluster* const second = pool.acquire(code(200'000, 1 << 16), shape(2));
  EXPECT_EQ(first, second);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::memset(second->shared[rank], 1, 200'000);
    std::memset(second->blocks[rank]->scratch, 1, 1 << 16);
  }
  EXPECT_NE(pool.acquire(code(100, 64), shape(1)), second);
}

TEST(ResidentPool, DynamicSharedMemoryFollowsStaticMemoryAtItsOffset) {
  Code code;
  code.static_shared_bytes = 100;
  code.dynamic_shared_offset = 128;
  EXPECT_EQ(shared_bytes(code, shape(1)), 100U);
  EXPECT_EQ(shared_bytes(code, shape(1, 50)), 178U);
  EXPECT_EQ(reserved_shared_offset(code, shape(1, 50)), 256U);
}

}  // namespace
}  // namespace cucpu::test
