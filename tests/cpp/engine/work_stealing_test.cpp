// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/work_stealing_test.cpp: distribution of clusters over host threads.
#include "cpu/engine/run/work_stealing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace cucpu::test {
namespace {

TEST(WorkStealing, OneThreadClaimsAllClustersInLinearOrder) {
  WorkStealingRanges ranges{1000, false};
  const unsigned slot = ranges.join();
  std::uint64_t next = 0;
  for (WorkStealingRanges::Range range; ranges.claim(slot, range); next = range.last)
    ASSERT_EQ(range.first, next);
  EXPECT_EQ(next, 1000);
}

TEST(WorkStealing, ASecondThreadStealsTheUpperHalfAndClaimsItInOrder) {
  WorkStealingRanges ranges{1 << 20, false};
  const unsigned one = ranges.join(), two = ranges.join();
  WorkStealingRanges::Range a, b;
  ASSERT_TRUE(ranges.claim(one, a));
  ASSERT_TRUE(ranges.claim(two, b));
  EXPECT_EQ(a.first, 0);
  EXPECT_NEAR(static_cast<double>(b.first), 1 << 19, 128);
  for (std::uint64_t next = b.last; next < 1 << 20; next = b.last) {
    ASSERT_TRUE(ranges.claim(two, b));
    EXPECT_EQ(b.first, next);
  }
}

TEST(WorkStealing, DividedClustersBelongToTheSlotsThatThreadsWishFor) {
  WorkStealingRanges ranges{1000, false, 8};
  const unsigned alone = ranges.join(0);
  WorkStealingRanges::Range range;
  ASSERT_TRUE(ranges.claim(alone, range, 100));
  EXPECT_EQ(range.last, 100);
  ranges.divide(0b101011);
  EXPECT_EQ(ranges.join(), 2U);  // the first that is not reserved
  EXPECT_EQ(ranges.join(3), 3U);
  EXPECT_EQ(ranges.join(2), 4U);  // taken
  EXPECT_EQ(ranges.join(0), 0U);
  EXPECT_EQ(ranges.join(20), 6U);
  std::uint64_t claimed = 100, begin = 100;
  for (const unsigned slot : {0U, 1U, 3U, 5U}) {
    ASSERT_TRUE(ranges.claim(slot, range));
    EXPECT_EQ(range.first, begin);
    claimed += range.last - range.first;
    begin += 225;
  }
  while (ranges.claim(3, range)) claimed += range.last - range.first;  // steals all that is left
  EXPECT_EQ(claimed, 1000);
  EXPECT_TRUE(ranges.is_empty());
}

TEST(WorkStealing, FewClustersAreNotDivided) {
  WorkStealingRanges ranges{3, false, 8};
  ranges.divide(0xff);
  WorkStealingRanges::Range range;
  ASSERT_TRUE(ranges.claim(ranges.join(0), range));
  EXPECT_EQ(range.first, 0);
  ASSERT_TRUE(ranges.claim(ranges.join(7), range));
  EXPECT_EQ(range.first, 2);  // stolen
}

TEST(WorkStealing, ClaimSizesGrowThenShrinkToTheSmallestAllowed) {
  WorkStealingRanges ranges{1 << 20, false, 2};
  const unsigned slot = ranges.join();
  std::vector<std::uint64_t> sizes;
  for (WorkStealingRanges::Range range; ranges.claim(slot, range, ranges.first_claim());)
    sizes.push_back(range.last - range.first);
  EXPECT_EQ(sizes.front(), 64);
  EXPECT_GT(*std::max_element(sizes.begin(), sizes.end()), 1 << 16);
  EXPECT_LE(sizes.back(), 64);
  EXPECT_LT(sizes.size(), 100U);
}

TEST(WorkStealing, ItIsEmptyOnceAllClustersAreClaimed) {
  for (const std::uint64_t processors : {1, 2, 16, 200}) {
    WorkStealingRanges ranges{1000, false, processors};
    const unsigned one = ranges.join(), two = ranges.join();
    EXPECT_FALSE(ranges.is_empty());
    WorkStealingRanges::Range range;
    std::uint64_t claimed = 0;
    while (ranges.claim(claimed % 2 == 0 ? one : two, range)) {
      claimed += range.last - range.first;
      ASSERT_EQ(ranges.is_empty(), claimed == 1000);
    }
    EXPECT_EQ(claimed, 1000);
  }
}

TEST(WorkStealing, InOrderClustersAreClaimedOneByOneInLinearOrder) {
  WorkStealingRanges ranges{100, true};
  const unsigned slots[] = {ranges.join(), ranges.join(), ranges.join()};
  WorkStealingRanges::Range range;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(ranges.claim(slots[i % 3], range));
    EXPECT_EQ(range.first, i);
    EXPECT_EQ(range.last, i + 1);
  }
  for (const unsigned slot : slots) EXPECT_FALSE(ranges.claim(slot, range));
}

/// Eighty threads, more than there are slots.
void expect_every_cluster_once(std::uint64_t processors) {
  constexpr unsigned kThreads = 80;
  for (const std::uint64_t clusters : {1, 2, 63, 4097, 100'000}) {
    WorkStealingRanges ranges{clusters, false, processors};
    // Some of the threads that slots are reserved for do not come.
    if (processors != 0) ranges.divide(0x5f);
    std::vector<std::atomic<int>> seen(clusters);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const unsigned slot = ranges.join(t % 2 == 0 ? t : ~0U);
        for (WorkStealingRanges::Range range; ranges.claim(slot, range);)
          for (std::uint64_t i = range.first; i < range.last; ++i) ++seen[i];
      });
    for (auto& thread : threads) thread.join();
    for (auto& times : seen) ASSERT_EQ(times, 1);
  }
}

TEST(WorkStealing, ManyThreadsClaimEachClusterOnce) { expect_every_cluster_once(0); }
TEST(WorkStealing, ManyThreadsOnFewProcessorsClaimEachClusterOnce) { expect_every_cluster_once(5); }
TEST(WorkStealing, ManyThreadsOnManyProcessorsClaimEachClusterOnce) {
  expect_every_cluster_once(200);
}

TEST(WorkStealing, ClaimedAndDrainedClustersAddUpToAll) {
  for (const bool in_order : {false, true}) {
    WorkStealingRanges ranges{10'001, in_order};
    std::uint64_t claimed = 0;
    for (int i = 0; i < 5; ++i) {
      const unsigned slot = ranges.join();
      WorkStealingRanges::Range range;
      ASSERT_TRUE(ranges.claim(slot, range));
      claimed += range.last - range.first;
    }
    EXPECT_EQ(claimed + ranges.drain(), 10'001);
    EXPECT_EQ(ranges.drain(), 0);
  }
}

TEST(WorkStealing, TheLargestGridIsDistributed) {
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 31) * 65535 * 65535;
  WorkStealingRanges ranges{kLargest, false};
  WorkStealingRanges::Range range;
  const unsigned one = ranges.join(), two = ranges.join();
  ASSERT_TRUE(ranges.claim(one, range));
  std::uint64_t claimed = range.last - range.first;
  ASSERT_TRUE(ranges.claim(two, range));
  claimed += range.last - range.first;
  EXPECT_EQ(claimed + ranges.drain(), kLargest);
}

TEST(WorkStealing, RestrictedToOneClusterOnlyThatIsClaimed) {
  for (const std::uint64_t cluster : {0, 1, 5, 999}) {
    WorkStealingRanges ranges{1000, false};
    ranges.restrict_to(cluster);
    const unsigned slot = ranges.join();
    WorkStealingRanges::Range range;
    ASSERT_TRUE(ranges.claim(slot, range));
    EXPECT_EQ(range.first, cluster);
    EXPECT_EQ(range.last, cluster + 1);
    EXPECT_FALSE(ranges.claim(slot, range));
  }
}

}  // namespace
}  // namespace cucpu::test
