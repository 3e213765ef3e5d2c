// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/claims_test.cpp: the clusters that one host thread has claimed from a grid.
#include "cpu/engine/run/claims.hpp"

#include <gtest/gtest.h>

namespace cucpu::test {
namespace {

TEST(Claims, EveryClusterComesOnceAndNoneAfterTheLast) {
  WorkStealingRanges ranges{1000, false};
  Claims claims;
  claims.begin(ranges);
  std::uint64_t cluster = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(claims.next(cluster));
    ASSERT_EQ(cluster, i);
  }
  EXPECT_FALSE(claims.next(cluster));
  EXPECT_FALSE(claims.next(cluster));
}

TEST(Claims, ABudgetEndsBetweenClaimsThatDouble) {
  WorkStealingRanges ranges{1000, false};
  Claims claims;
  claims.begin(ranges, {.part = 0, .budget_ns = 1}, 1);  // over since long ago
  std::uint64_t cluster = 0;
  ASSERT_TRUE(claims.next(cluster));  // one is claimed in any case
  EXPECT_FALSE(claims.next(cluster));
  EXPECT_TRUE(claims.is_exhausted());
  EXPECT_FALSE(ranges.is_empty());
  claims.begin(ranges, {.part = 0, .budget_ns = ~std::uint64_t{0} - 1}, 1);
  for (std::uint64_t expected = 1; claims.next(cluster); ++expected) EXPECT_EQ(cluster, expected);
  EXPECT_EQ(cluster, 999);
}

TEST(Claims, TheFirstClaimIsMeasured) {
  WorkStealingRanges ranges{1000, false};
  ranges.divide(1);
  Claims claims;
  const std::uint64_t before = now_ns();
  claims.begin(ranges, {.part = 0}, before);
  std::uint64_t cluster = 0;
  ASSERT_TRUE(claims.next(cluster));
  const std::uint64_t between = now_ns();
  const Claims::Measured only = claims.first_claim(between);
  EXPECT_LE(only.nanoseconds, between - before);
  while (now_ns() < between + 1'000'000) {
  }
  while (claims.next(cluster)) {
  }
  const Claims::Measured first = claims.first_claim(~std::uint64_t{0});
  EXPECT_EQ(first.clusters, only.clusters);
  EXPECT_GE(first.nanoseconds, 1'000'000U);
  EXPECT_LE(first.nanoseconds, now_ns() - before);
}

TEST(Claims, AClusterThatWasPutBackComesAgain) {
  WorkStealingRanges ranges{3, true};
  Claims claims;
  claims.begin(ranges);
  std::uint64_t cluster = 9;
  ASSERT_TRUE(claims.next(cluster));
  claims.put_back();
  ASSERT_TRUE(claims.next(cluster));
  EXPECT_EQ(cluster, 0);
}

TEST(Claims, TheFollowingClustersAreContiguousAndCountedOnce) {
  WorkStealingRanges ranges{100'000, false, 1};
  Claims claims;
  claims.begin(ranges);
  std::uint64_t cluster = 0, expected = 0;
  while (claims.next(cluster)) {
    ASSERT_EQ(cluster, expected);
    expected += 1 + claims.take_following(2);
  }
  EXPECT_EQ(expected, 100'000);
}

/// The size of the last claim of a grid whose first claim takes this time.
std::uint64_t last_claim(std::uint64_t nanoseconds) {
  WorkStealingRanges ranges{1000, false, 1};
  Claims claims;
  claims.begin(ranges);
  std::uint64_t cluster = 0, last = 0;
  while (claims.next(cluster)) {
    last = 1 + claims.take_following(~0U);
    if (cluster == 0 && nanoseconds != 0) pause_ns(nanoseconds);
  }
  return last;
}

TEST(Claims, ClustersThatTakeLongAreClaimedOneByOneAtTheEnd) {
  EXPECT_EQ(last_claim(10'000'000), 1);
}

TEST(Claims, FinishedClustersArePublishedBeforeOthersAreStolen) {
  WorkStealingRanges ranges{100, false};
  ranges.divide(0b11);
  std::atomic<std::uint64_t> unfinished{100};
  Claims claims;
  claims.begin(ranges, {.part = 1}, 0, &unfinished);
  std::uint64_t cluster = 0;
  for (std::uint64_t i = 50; i < 100; ++i) {
    ASSERT_TRUE(claims.next(cluster));
    ASSERT_EQ(cluster, i);
    EXPECT_EQ(unfinished, 100);
    claims.finish(1);
  }
  ASSERT_TRUE(claims.next(cluster));  // of slot 0
  EXPECT_LT(cluster, 50);
  EXPECT_EQ(unfinished, 50);
  claims.finish(1);
  while (claims.next(cluster)) claims.finish(1);
  EXPECT_TRUE(claims.publish());
  EXPECT_TRUE(claims.publish()) << "the thread that finished the last one stays that";
  EXPECT_EQ(unfinished, 0);
}

TEST(Claims, AbandonedClustersCountAsFinished) {
  WorkStealingRanges ranges{1000, false};
  Claims claims;
  claims.begin(ranges);
  std::uint64_t cluster = 0;
  ASSERT_TRUE(claims.next(cluster));
  claims.finish(1);
  ASSERT_TRUE(claims.next(cluster));
  claims.put_back();
  claims.abandon();
  EXPECT_EQ(claims.finished(), 1000);
}

}  // namespace
}  // namespace cucpu::test
