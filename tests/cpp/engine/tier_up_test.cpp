// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/tier_up_test.cpp: better code takes over from the code a kernel began with.
#include "cpu/engine/run/tier_up.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "grid_fixture.hpp"

namespace cucpu::test {
namespace {

struct Counts {
  std::atomic<int> first{0}, second{0};
  int before = 3;  ///< blocks of the first code, after which they wait for the second
  std::shared_ptr<TierUp> tier_up;
};

void first_block(BlockContext* context) {
  auto& counts = param<Counts>(*context);
  if (++counts.first < counts.before) return;
  while (!counts.tier_up->optimized_code()) std::this_thread::yield();
}

void second_block(BlockContext* context) {
  std::memset(context->scratch, 1, 1 << 16);
  ++param<Counts>(*context).second;
}

void second_thread(ThreadContext* thread) {
  cucpu_rt_barrier_sync(0, 0);
  if (thread->linear == 0) ++param<Counts>(*thread->block).second;
}

Code larger_block_code() {
  Code code = block_code(second_block);
  code.scratch_bytes = 1 << 16;
  code.stack_bytes = 1 << 20;
  return code;
}

struct Change {
  const char* name;
  Code (*second)();
  std::uint32_t cluster;
};
void PrintTo(const Change& change, std::ostream* out) { *out << change.name; }

class TierUpTest : public testing::TestWithParam<Change> {
 protected:
  /// Runs a grid that begins with the first code.
  Outcome run(const LaunchShape& shape, int threads) {
    ensure_fault_handlers();
    counts.tier_up =
        std::make_shared<TierUp>([] { return std::make_shared<const Code>(GetParam().second()); });
    Counts* const address = &counts;
    BaselineRun first;
    first.start(counts.tier_up);
    Grid grid{std::make_shared<Code>(block_code(first_block)), shape,
              reinterpret_cast<const std::byte*>(&address), counts.tier_up};
    std::atomic<int> finishers{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] { finishers += grid.work() ? 1 : 0; });
    for (auto& worker : workers) worker.join();
    first.stop();
    return {finishers.load(), grid.fault() ? grid.fault()->code : 0, {}};
  }
  LaunchShape shape() {
    LaunchShape shape;
    shape.grid = {240, 1, 1};
    shape.block = {64, 1, 1};
    shape.cluster = {GetParam().cluster, 1, 1};
    return shape;
  }
  Counts counts;
};

TEST_P(TierUpTest, BlocksThatStartLaterRunOptimizedCode) {
  const Outcome outcome = run(shape(), 1);
  EXPECT_EQ(outcome.finishers, 1);
  EXPECT_EQ(outcome.code, 0);
  const int resident = static_cast<int>(GetParam().cluster);
  EXPECT_LE(counts.first, (counts.before + resident - 1) / resident * resident);
  EXPECT_EQ(counts.first + counts.second, 240);
}

TEST_P(TierUpTest, NoBlockIsLostBetweenHostThreads) {
  for (int round = 0; round < 20; ++round) {
    counts.first = counts.second = 0;
    counts.before = 1 + round * 7;
    const Outcome outcome = run(shape(), 4);
    EXPECT_EQ(outcome.finishers, 1);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(counts.first + counts.second, 240);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TierUpTest,
                         testing::Values(Change{"blocks", larger_block_code, 1},
                                         Change{"threads",
                                                [] { return thread_code(second_thread); }, 1},
                                         Change{"clusters", larger_block_code, 4}),
                         [](const auto& change) { return std::string{change.param.name}; });

TEST(TierUp, ShortRunsAddUp) {
  const auto tier_up =
      std::make_shared<TierUp>([] { return std::make_shared<const Code>(larger_block_code()); });
  while (!tier_up->optimized_code()) {
    BaselineRun run;
    run.start(tier_up);
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{2})
      std::this_thread::yield();
    run.stop();
  }
}

TEST(TierUp, AFailedCompilationKeepsTheBaselineCode) {
  std::atomic<int> calls{0};
  const auto none = std::make_shared<TierUp>([&]() -> std::shared_ptr<const Code> {
    ++calls;
    return nullptr;
  });
  const auto fails = std::make_shared<TierUp>([&]() -> std::shared_ptr<const Code> {
    ++calls;
    throw std::runtime_error{"no"};
  });
  const auto last =
      std::make_shared<TierUp>([] { return std::make_shared<const Code>(larger_block_code()); });
  BaselineRun runs[4];
  runs[0].start(none);
  runs[1].start(fails);
  runs[2].start(last);
  while (!last->optimized_code()) std::this_thread::yield();
  runs[3].start(none);  // asked for once only
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(none->optimized_code(), nullptr);
  EXPECT_EQ(fails->optimized_code(), nullptr);
}

std::atomic<long> g_turns{0};

/// What the process runs when it ends, after what the background registered.
void look_whether_anybody_works() {
  const long before = g_turns;
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  std::_Exit(g_turns == before ? 0 : 1);
}

TEST(TierUpDeathTest, CompilationStopsBeforeTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ends = [] {
    std::atexit(look_whether_anybody_works);
    const auto endless = std::make_shared<TierUp>([]() -> std::shared_ptr<const Code> {
      for (;; ++g_turns) block_if_exiting();
    });
    BaselineRun run;
    run.start(endless);
    while (g_turns == 0) std::this_thread::yield();
    std::exit(2);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cucpu::test
