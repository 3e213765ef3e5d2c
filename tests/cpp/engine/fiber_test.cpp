// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/fiber_test.cpp: stacks of fibers, and switches between fibers.
#include "cpu/engine/run/fiber.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "cpu/engine/run/fiber_switch.hpp"

namespace cucpu::test {
namespace {

TEST(StackPool, StacksAreDistinctWritableAndReused) {
  StackPool pool;
  pool.configure(100'000, true);
  std::vector<Stack> stacks;
  std::set<std::byte*> bases;
  for (int i = 0; i < 100; ++i) {
    stacks.push_back(pool.acquire());
    EXPECT_GE(stacks.back().size, 100'000U);
    std::memset(stacks.back().base, i, stacks.back().size);
    bases.insert(stacks.back().base);
  }
  EXPECT_EQ(bases.size(), 100U);
  for (const Stack& stack : stacks) pool.release(stack);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(bases.contains(pool.acquire().base));
}

TEST(StackPool, TheGuardPageLiesBelowTheStack) {
  StackPool pool;
  pool.configure(64 * 1024, true);
  const Stack stack = pool.acquire();
  const auto base = reinterpret_cast<std::uintptr_t>(stack.base);
  EXPECT_TRUE(stack.guard_contains(base - 1, page_size()));
  EXPECT_TRUE(stack.guard_contains(base - page_size(), page_size()));
  EXPECT_FALSE(stack.guard_contains(base, page_size()));
  EXPECT_FALSE(stack.guard_contains(base - page_size() - 1, page_size()));
}

TEST(StackPool, ALargerConfigurationGivesLargerStacks) {
  StackPool pool;
  pool.configure(64 * 1024, false);
  pool.release(pool.acquire());
  pool.configure(1 << 20, false);
  EXPECT_GE(pool.acquire().size, std::size_t{1} << 20);
}

struct Generator {
  HostStack host;
  void* fiber = nullptr;
  int value = 0;
  double kept = 0;
};

void count(void* argument) {
  auto& generator = *static_cast<Generator*>(argument);
  finish_first_switch(generator.host);
  double sum = 0.5;  // a local variable lives across switches
  for (;;) {
    ++generator.value;
    sum += generator.value;
    generator.kept = sum;
    leave_fiber(&generator.fiber, generator.host);
  }
}

TEST(FiberSwitch, AFiberContinuesWhereItLeft) {
  StackPool pool;
  pool.configure(64 * 1024, true);
  const Stack stack = pool.acquire();
  Generator generator;
  generator.fiber = prepare_fiber(stack, count, &generator, 3);
  double expected = 0.5;
  for (int i = 1; i <= 10; ++i) {
    enter_fiber(generator.host, generator.fiber, stack);
    expected += i;
    EXPECT_EQ(generator.value, i);
    EXPECT_EQ(generator.kept, expected);
  }
  destroy_tsan_fibers(generator.host);
}

}  // namespace
}  // namespace cucpu::test
