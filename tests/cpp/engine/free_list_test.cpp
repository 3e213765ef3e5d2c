// SPDX-License-Identifier: Apache-2.0
// Reuse of freed blocks: by size, across threads, repeatedly.
#include "cpu/mem/free_list.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace cucpu {
namespace {

TEST(FreeList, BlocksAreAlignedAndLargeEnough) {
  for (const std::size_t bytes : {1u, 63u, 64u, 65u, 500u, 1024u, 1025u, 100'000u}) {
    void* const block = allocate_from_free_list(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
    std::memset(block, 0xff, bytes);
    return_to_free_list(block, bytes);
  }
}

TEST(FreeList, ABlockIsNeverAllocatedTwice) {
  std::vector<void*> blocks;
  std::set<void*> different;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3000; ++i) blocks.push_back(allocate_from_free_list(200));
    different = {blocks.begin(), blocks.end()};
    EXPECT_EQ(different.size(), blocks.size());
    for (void* block : blocks) return_to_free_list(block, 200);
    blocks.clear();
  }
}

TEST(FreeList, ThreadsAllocateAndFreeEachOthersBlocksConcurrently) {
  constexpr int kRounds = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::vector<std::uint64_t*> mine;
      for (int i = 0; i < kRounds; ++i) {
        auto* const block = static_cast<std::uint64_t*>(allocate_from_free_list(128));
        block[0] = static_cast<std::uint64_t>(t);
        block[15] = static_cast<std::uint64_t>(i);
        mine.push_back(block);
        if (mine.size() < 200) continue;  // more than a thread keeps for itself
        for (std::uint64_t* one : mine) {
          EXPECT_EQ(one[0], static_cast<std::uint64_t>(t));
          return_to_free_list(one, 128);
        }
        mine.clear();
      }
      for (std::uint64_t* one : mine) return_to_free_list(one, 128);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FreeList, BlocksFreedByOneThreadAreAllocatedByTheNext) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate_from_free_list(900));
  std::thread{[&] {
    for (void* block : blocks) return_to_free_list(block, 900);
  }}.join();  // its end leaves all of them to the others
  const std::set<void*> freed{blocks.begin(), blocks.end()};
  int again = 0;
  for (void*& block : blocks) {
    block = allocate_from_free_list(900);
    again += freed.count(block) != 0;
  }
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(again, 100);
#endif
  for (void* block : blocks) return_to_free_list(block, 900);
}

struct Base {
  virtual ~Base() = default;
};
struct alignas(64) Derived final : Base, FreeListAllocated {
  std::byte more[300];
};

TEST(FreeList, AnObjectDeletedThroughItsBaseIsReused) {
  Base* const object = new Derived;
  const void* const place = dynamic_cast<void*>(object);
  delete object;
  Derived* const next = new Derived;
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(dynamic_cast<void*>(next), place);
#else
  (void)place;
#endif
  delete next;
}

}  // namespace
}  // namespace cucpu
