// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/ready_queue_test.cpp: the order of fibers that can run.
#include "cpu/engine/run/ready_queue.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <random>
#include <vector>

namespace cucpu::test {
namespace {

TEST(ReadyQueue, TakeKeepsTheOrderOfTheOthers) {
  std::vector<Fiber> fibers(5000);
  std::mt19937 random{7};
  for (const std::size_t most : {1U, 3U, 64U, 5000U}) {
    ReadyQueue queue;
    queue.set_indexed(true);
    queue.reserve(most);
    std::deque<Fiber*> model, waiting;
    for (std::size_t i = 0; i < most; ++i) waiting.push_back(&fibers[i]);
    for (unsigned step = 0; step < 30'000; ++step) {
      const bool pushes = model.empty() || (!waiting.empty() && random() % 2 == 0);
      if (pushes) {
        queue.push(waiting.front());
        model.push_back(waiting.front());
        waiting.pop_front();
      } else {
        const bool pops = random() % 8 == 0;
        const std::size_t at = pops ? 0 : random() % model.size();
        Fiber* const taken = pops ? queue.pop() : queue.take(at);
        ASSERT_EQ(taken, model[at]) << "position " << at << " of " << model.size();
        model.erase(model.begin() + static_cast<std::ptrdiff_t>(at));
        waiting.push_back(taken);
      }
      ASSERT_EQ(queue.size(), model.size());
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

TEST(ReadyQueue, IsEmptyAfterClearAndWithoutReserve) {
  std::vector<Fiber> fibers(1000);
  for (const bool is_indexed : {false, true}) {
    ReadyQueue queue;
    queue.set_indexed(is_indexed);
    EXPECT_EQ(queue.pop(), nullptr);
    for (unsigned round = 0; round < 2; ++round) {
      for (Fiber& fiber : fibers) queue.push(&fiber);
      EXPECT_EQ(queue.size(), fibers.size());
      EXPECT_EQ(queue.pop(), &fibers[0]);
      EXPECT_EQ(queue.pop(), &fibers[1]);
      queue.clear();
      EXPECT_TRUE(queue.empty());
      EXPECT_EQ(queue.pop(), nullptr);
    }
  }
}

}  // namespace
}  // namespace cucpu::test
