// SPDX-License-Identifier: Apache-2.0
// The thread pool with many threads: workers on standby, and grids that they share.
#include "cpu/exec/thread_pool.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using cucpu::driver::SpinBudget;
using cucpu::driver::StandbyWorkers;
using cucpu::driver::ThreadPool;
using namespace std::chrono_literals;

constexpr unsigned kPlaces = StandbyWorkers::kPlaces;
constexpr auto kOnlyMessages = [] { return false; };

TEST(SpinBudget, IsUsedUpBySpinsForNothing) {
  SpinBudget budget;
  unsigned spins = 0;
  for (; budget.is_left(); ++spins) budget.spend();
  EXPECT_GE(spins, 1U);
  budget.refill();
  for (; budget.is_left(); --spins) budget.spend();
  EXPECT_EQ(spins, 0U);
}

TEST(StandbyWorkers, WithoutAWaitingWorkerNoneIsChosen) {
  StandbyWorkers workers;
  EXPECT_EQ(workers.choose(3, kPlaces), 0U);
  EXPECT_EQ(workers.wait(3, 1ms, kOnlyMessages), 0U);       // nothing comes
  EXPECT_EQ(workers.wait(3, 1h, [] { return true; }), 0U);  // needed elsewhere
  EXPECT_EQ(workers.waiting(kPlaces), 0U);
  EXPECT_EQ(workers.choose(3, kPlaces), 0U);
  EXPECT_EQ(workers.choose(3, kPlaces, 2), 0U) << "the two that were said to come did not";
}

TEST(StandbyWorkers, NoMoreAreChosenThanAskedForThoseWithLowPlacesFirst) {
  StandbyWorkers workers;
  std::array<std::uintptr_t, 4> messages{};
  std::vector<std::thread> threads;
  for (unsigned place = 0; place < messages.size(); ++place)
    threads.emplace_back([&, place] { messages[place] = workers.wait(place, 1h, kOnlyMessages); });
  while (workers.waiting(kPlaces) != 0b1111U) std::this_thread::yield();
  const std::uint64_t first = workers.choose(3, kPlaces);
  EXPECT_EQ(first, 0b0111U);
  EXPECT_EQ(workers.choose(3, kPlaces), 0U) << "while another thread sends";
  workers.send(first, 7);
  EXPECT_EQ(workers.waiting(kPlaces), 0b1000U);
  EXPECT_EQ(workers.choose(3, 3), 0U);
  const std::uint64_t second = workers.choose(3, kPlaces);
  EXPECT_EQ(second, 0b1000U);
  workers.send(second, 5);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(messages, (std::array<std::uintptr_t, 4>{7, 7, 7, 5}));
}

TEST(StandbyWorkers, EveryMessageReachesOneWorker) {
  constexpr unsigned kWorkers = 2;
  constexpr std::uintptr_t kMessages = 100;
  StandbyWorkers workers;
  std::vector<std::atomic<unsigned>> received(kMessages + 1);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (unsigned place = 0; place < kWorkers; ++place)
    threads.emplace_back([&, place] {
      // Some give up at once, which competes with the sender.
      const auto longest = place % 2 == 0 ? 50us : 0us;
      for (; !is_over; std::this_thread::yield())
        if (const std::uintptr_t message = workers.wait(place, longest, kOnlyMessages))
          ++received[message];
    });
  for (std::uintptr_t message = 1; message <= kMessages; ++message) {
    std::uint64_t chosen = 0;
    while ((chosen = workers.choose(1, kPlaces)) == 0) std::this_thread::sleep_for(20us);
    workers.send(chosen, message);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  for (std::uintptr_t message = 1; message <= kMessages; ++message)
    ASSERT_EQ(received[message], 1U) << message;
}

class ManyThreads : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    threads_ = ThreadPool::instance().threads();
    ThreadPool::instance().configure(8, 8);  // as with eight cores
  }
  void TearDown() override {
    ThreadPool::instance().configure(threads_);
    DriverTest::TearDown();
  }

 private:
  unsigned threads_ = 0;
};

TEST_F(ManyThreads, EveryBlockOfEveryGridRunsOnce) {
  constexpr unsigned kHostThreads = 3, kLaunches = 600;
  constexpr std::array kBlocks{1U, 2U, 7U, 8U, 40U, 500U};
  unsigned* const sums = words(kHostThreads);
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&context));
  const CUfunction add = kernel("add");
  std::vector<std::thread> hosts;
  for (unsigned host = 0; host < kHostThreads; ++host)
    hosts.emplace_back([&, host] {
      EXPECT_OK(cuCtxSetCurrent(context));
      CUstream stream = nullptr;
      EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      unsigned expected = 0;
      for (unsigned i = 0; i < kLaunches; ++i) {
        const unsigned blocks = kBlocks[(i + host) % kBlocks.size()];
        EXPECT_OK(launch(add, blocks, stream, sums + host, 3U));
        expected += 3 * blocks;
        if (i % 4 == 3) continue;  // queued: the next launch follows at once
        if (i % 32 == 0) std::this_thread::sleep_for(100us);  // the workers fall asleep
        EXPECT_OK(cuStreamSynchronize(stream));
        ASSERT_EQ(std::atomic_ref{sums[host]}.load(), expected);
      }
      EXPECT_OK(cuStreamDestroy(stream));
    });
  for (std::thread& host : hosts) host.join();
}

TEST_F(ManyThreads, WorkersOnStandbyTakeTasksOfOtherStreams) {
  CUstream a = nullptr, b = nullptr;
  ASSERT_OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  unsigned* const flags = words(2);
  for (int round = 0; round < 50; ++round) {
    ASSERT_OK(launch(kernel("add"), 64, a, flags + 1, 1U));
    ASSERT_OK(cuStreamSynchronize(a));  // now workers are on standby
    std::atomic_ref{flags[0]} = 0;
    ASSERT_OK(launch(kernel("spin"), 1, a, flags));  // ends when the other stream has stored
    ASSERT_OK(launch(kernel("store"), 1, b, flags, 1U));
    ASSERT_OK(cuStreamSynchronize(a));
  }
  ASSERT_OK(cuStreamDestroy(a));
  ASSERT_OK(cuStreamDestroy(b));
}

}  // namespace
