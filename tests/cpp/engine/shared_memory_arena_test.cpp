// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/shared_memory_arena_test.cpp: what is known of the addresses of shared memory.
#include "cpu/engine/run/shared_memory_arena.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

namespace cucpu {
namespace {

std::uintptr_t number(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

TEST(SharedMemoryArena, ContainsAllAddressesWithin32BitOffsets) {
  SharedMemoryArena space;
  const std::uintptr_t first = number(space.allocate(65536)),
                       second = number(space.allocate(65536));
  EXPECT_EQ(second, first + 65536);
  EXPECT_TRUE(space.contains(first));
  EXPECT_TRUE(space.contains(second + 0xffffffff));
  EXPECT_FALSE(space.contains(first - 1));
}

[[noreturn]] void take_where_the_range_is_refused() {
  const rlimit limit{std::size_t{2} << 30, std::size_t{2} << 30};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(1);
  SharedMemoryArena space;
  const std::uintptr_t alone = number(space.allocate(65536));
  if (!space.contains(alone) || !space.contains(alone + 65535)) std::_Exit(2);
  std::_Exit(space.contains(alone + 65536) || space.contains(alone - 1) ? 3 : 0);
}

// The memory next to a mapping does not belong to the arena.
TEST(SharedMemoryArenaDeathTest, ContainsSeparateMappingsIfTheRangeCannotBeReserved) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more addresses than this leaves";
#endif
  EXPECT_EXIT(take_where_the_range_is_refused(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cucpu
