// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/block_time_test.cpp: how the estimate of a grid's time follows measured times.
#include "cpu/engine/run/block_time.hpp"

#include <gtest/gtest.h>

namespace cucpu::test {
namespace {

TEST(BlockTime, IsUnknownAtFirstThenWhatWasMeasured) {
  BlockTime time;
  EXPECT_EQ(time.of(10), BlockTime::kUnknown);
  time.record(4, 2'000, false);
  EXPECT_EQ(time.of(10), 5'000);
  EXPECT_EQ(time.of(BlockTime::kUnknown), BlockTime::kUnknown);  // too large for a number
}

TEST(BlockTime, ALongGridCountsAtOnceAShortOneLittleByLittle) {
  BlockTime time;
  time.record(100, 1'000, true);
  time.record(100, 1'000'000'000, true);
  EXPECT_EQ(time.of(100), 1'000'000'000);
  time.record(100, 1'000, true);
  EXPECT_EQ(time.of(100), 875'000'000);
  for (int i = 0; i < 200; ++i) time.record(100, 1'000, true);
  EXPECT_EQ(time.of(100), 1'000);
}

TEST(BlockTime, OneInterruptionDoublesTheEstimateOnly) {
  BlockTime time;
  time.record(100, 1'000, true);
  time.record(100, 50'000, true);
  EXPECT_EQ(time.of(100), 2'000);
}

TEST(BlockTime, TheCostsOfADividedGridAreNotTakenForThoseOfItsBlocks) {
  BlockTime time;
  time.record(100, 8'000, true);
  for (int i = 0; i < 8; ++i) time.record(2, 5'000, false);  // two blocks, and looking for more
  EXPECT_LT(time.of(100), 3'000);
  time.record(2, 30'000, false);  // long enough to tell
  EXPECT_GT(time.of(100), 5'000);
}

}  // namespace
}  // namespace cucpu::test
