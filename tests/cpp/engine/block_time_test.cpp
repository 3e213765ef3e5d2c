// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/block_time_test.cpp: how the estimate of a grid's time follows measured times.
#include "cpu/engine/run/block_time.hpp"

#include <gtest/gtest.h>

namespace cucpu::test {
namespace {

TEST(BlockTime, IsUnknownAtFirstThenWhatWasMeasured) {
  BlockTime time;
  EXPECT_EQ(time.of(10), BlockTime::kUnknown);
  time.record(4, 2'000);
  EXPECT_EQ(time.of(10), 5'000);
  EXPECT_EQ(time.of(BlockTime::kUnknown), BlockTime::kUnknown);  // too large for a number
}

TEST(BlockTime, ALongGridCountsAtOnceAShortOneLittleByLittle) {
  BlockTime time;
  time.record(100, 1'000);
  time.record(100, 1'000'000'000);
  EXPECT_EQ(time.of(100), 1'000'000'000);
  time.record(100, 1'000);
  EXPECT_EQ(time.of(100), 875'000'000);
  for (int i = 0; i < 200; ++i) time.record(100, 1'000);
  EXPECT_EQ(time.of(100), 1'000);
}

TEST(BlockTime, OneInterruptionDoublesTheEstimateOnly) {
  BlockTime time;
  time.record(100, 1'000);
  time.record(100, 50'000);
  EXPECT_EQ(time.of(100), 2'000);
}

}  // namespace
}  // namespace cucpu::test
