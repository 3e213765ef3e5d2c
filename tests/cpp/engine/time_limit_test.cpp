// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/time_limit_test.cpp: grids that run longer than their time limit are cancelled.
#include "cpu/engine/run/time_limit.hpp"

#include "grid_fixture.hpp"

namespace cucpu::test {
namespace {

void spin_until_cancelled(BlockContext*) {
  for (;;) cucpu_rt_yield();
}

void end(BlockContext*) {}

struct LimitedGrid {
  explicit LimitedGrid(BlockFunction* f)
      : grid{std::make_shared<Code>(block_code(f)), shape(), {}} {
    ensure_fault_handlers();
  }
  static LaunchShape shape() {
    LaunchShape shape;
    shape.grid = shape.block = {1, 1, 1};
    return shape;
  }
  Grid grid;
};

TEST(TimeLimit, AGridThatRunsOverItEndsWith702) {
  LimitedGrid limited{spin_until_cancelled};
  TimeLimit limit;
  limit.start(limited.grid, 0.01);
  EXPECT_TRUE(limited.grid.work());
  limit.stop();
  ASSERT_NE(limited.grid.fault(), nullptr);
  EXPECT_EQ(limited.grid.fault()->code, 702);
}

TEST(TimeLimit, AGridThatEndsInTimeHasNoFault) {
  LimitedGrid limited{end};
  TimeLimit limit;
  limit.start(limited.grid, 1000);
  EXPECT_TRUE(limited.grid.work());
  limit.stop();
  EXPECT_EQ(limited.grid.fault(), nullptr);
}

}  // namespace
}  // namespace cucpu::test
