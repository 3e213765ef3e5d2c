// tests/cpp/engine/work_stealing_test.cpp: how clusters are dealt out to host threads.
#include "cpu/engine/run/work_stealing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace cucpu::test {
namespace {

TEST(Dealer, OneThreadGetsEverythingInLinearOrder) {
  Dealer dealer{1000, false};
  const unsigned hand = dealer.join();
  std::uint64_t next = 0;
  for (Dealer::Range range; dealer.claim(hand, range); next = range.last)
    ASSERT_EQ(range.first, next);
  EXPECT_EQ(next, 1000);
}

TEST(Dealer, ASecondThreadTakesTheFarHalfAndGoesOnFromThere) {
  Dealer dealer{1 << 20, false};
  const unsigned one = dealer.join(), two = dealer.join();
  Dealer::Range a, b;
  ASSERT_TRUE(dealer.claim(one, a));
  ASSERT_TRUE(dealer.claim(two, b));
  EXPECT_EQ(a.first, 0);
  EXPECT_NEAR(static_cast<double>(b.first), 1 << 19, 128);
  for (std::uint64_t next = b.last; next < 1 << 20; next = b.last) {
    ASSERT_TRUE(dealer.claim(two, b));
    EXPECT_EQ(b.first, next);
  }
}

TEST(Dealer, AThreadClaimsFewAtFirstThenManyAndFewAtTheEnd) {
  Dealer dealer{1 << 20, false, 2};
  const unsigned hand = dealer.join();
  std::vector<std::uint64_t> sizes;
  for (Dealer::Range range; dealer.claim(hand, range);) sizes.push_back(range.last - range.first);
  EXPECT_EQ(sizes.front(), 64);
  EXPECT_GT(*std::max_element(sizes.begin(), sizes.end()), 1 << 16);
  EXPECT_EQ(sizes.back(), 64);
  EXPECT_LT(sizes.size(), 100U);
}

TEST(Dealer, ClustersThatMayWaitForEachOtherComeOneByOneInLinearOrder) {
  Dealer dealer{100, true};
  const unsigned hands[] = {dealer.join(), dealer.join(), dealer.join()};
  Dealer::Range range;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(dealer.claim(hands[i % 3], range));
    EXPECT_EQ(range.first, i);
    EXPECT_EQ(range.last, i + 1);
  }
  for (const unsigned hand : hands) EXPECT_FALSE(dealer.claim(hand, range));
}

/// Eighty threads, on a machine of so many processors: more than there are hands.
void expect_every_cluster_once(std::uint64_t processors) {
  constexpr unsigned kThreads = 80;
  for (const std::uint64_t clusters : {1, 2, 63, 4097, 100'000}) {
    Dealer dealer{clusters, false, processors};
    std::vector<std::atomic<int>> seen(clusters);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        const unsigned hand = dealer.join();
        for (Dealer::Range range; dealer.claim(hand, range);)
          for (std::uint64_t i = range.first; i < range.last; ++i) ++seen[i];
      });
    for (auto& thread : threads) thread.join();
    for (auto& times : seen) ASSERT_EQ(times, 1);
  }
}

TEST(Dealer, ManyThreadsGetEveryClusterOnce) { expect_every_cluster_once(0); }
TEST(Dealer, ManyThreadsOfAFewProcessorsGetEveryClusterOnce) { expect_every_cluster_once(5); }
TEST(Dealer, ManyThreadsOfManyProcessorsGetEveryClusterOnce) { expect_every_cluster_once(200); }

TEST(Dealer, WhatIsDroppedAndWhatWasClaimedIsEverything) {
  for (const bool in_order : {false, true}) {
    Dealer dealer{10'001, in_order};
    std::uint64_t claimed = 0;
    for (int i = 0; i < 5; ++i) {
      const unsigned hand = dealer.join();
      Dealer::Range range;
      ASSERT_TRUE(dealer.claim(hand, range));
      claimed += range.last - range.first;
    }
    EXPECT_EQ(claimed + dealer.drop_rest(), 10'001);
    EXPECT_EQ(dealer.drop_rest(), 0);
  }
}

TEST(Dealer, GridsOfAnySizeAreDealt) {
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 31) * 65535 * 65535;
  Dealer dealer{kLargest, false};
  Dealer::Range range;
  const unsigned one = dealer.join(), two = dealer.join();
  ASSERT_TRUE(dealer.claim(one, range));
  std::uint64_t claimed = range.last - range.first;
  ASSERT_TRUE(dealer.claim(two, range));
  claimed += range.last - range.first;
  EXPECT_EQ(claimed + dealer.drop_rest(), kLargest);
}

TEST(Dealer, OneClusterAlone) {
  for (const std::uint64_t cluster : {0, 1, 5, 999}) {
    Dealer dealer{1000, false};
    dealer.only(cluster);
    const unsigned hand = dealer.join();
    Dealer::Range range;
    ASSERT_TRUE(dealer.claim(hand, range));
    EXPECT_EQ(range.first, cluster);
    EXPECT_EQ(range.last, cluster + 1);
    EXPECT_FALSE(dealer.claim(hand, range));
  }
}

}  // namespace
}  // namespace cucpu::test
