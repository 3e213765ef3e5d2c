// SPDX-License-Identifier: Apache-2.0
// Several threads capture, launch and update graphs while others allocate.
#include <atomic>
#include <thread>

#include "support.hpp"

namespace {

class CaptureThreads : public DriverTest {
 protected:
  static constexpr unsigned kThreads = 4, kRounds = 40;
  void SetUp() override {
    DriverTest::SetUp();
    add_ = kernel("add");
    counts_ = words(kThreads);
  }
  /// Two streams, and an event for fork and join.
  struct Streams {
    Streams() {
      EXPECT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
      EXPECT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
      EXPECT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    }
    CUstream first = nullptr, second = nullptr;
    CUevent event = nullptr;
  };
  /// Two branches that each add one.
  CUgraph captured(const Streams& streams, unsigned* count) {
    const auto [first, second, event] = streams;
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_OK(cuEventRecord(event, first));
    EXPECT_OK(cuStreamWaitEvent(second, event, 0));
    EXPECT_OK(launch(add_, 1, first, address(count), 1u));
    EXPECT_OK(launch(add_, 1, second, address(count), 1u));
    EXPECT_OK(cuEventRecord(event, second));
    EXPECT_OK(cuStreamWaitEvent(first, event, 0));
    EXPECT_OK(cuStreamEndCapture(first, &graph));
    return graph;
  }
  void work(unsigned* count) {
    ASSERT_OK(cuCtxSetCurrent(context_));
    const Streams mine;
    const CUstream first = mine.first, second = mine.second;
    CUgraphExec exec = nullptr;
    for (unsigned round = 0; round < kRounds; ++round) {
      const CUgraph graph = captured(mine, count);
      CUgraphExecUpdateResultInfo info{};
      if (exec)
        ASSERT_OK(cuGraphExecUpdate(exec, graph, &info));
      else
        ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
      ASSERT_OK(cuGraphDestroy(graph));
      ASSERT_OK(cuGraphLaunch(exec, round % 2 ? second : first));
      CUdeviceptr memory = 0;
      ASSERT_OK(cuMemAllocAsync(&memory, 4096, first));
      ASSERT_OK(cuMemFreeAsync(memory, second));
    }
    ASSERT_OK(cuStreamSynchronize(first));
    ASSERT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(2 * kRounds, *count);
    ASSERT_OK(cuGraphExecDestroy(exec));
  }

  CUfunction add_ = nullptr;
  unsigned* counts_ = nullptr;
};

TEST_F(CaptureThreads, ConcurrentCapturesAreIndependent) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([this, t] { work(&counts_[t]); });
  for (std::thread& thread : threads) thread.join();
}

/// One executable graph in the streams of all threads: its runs never overlap.
TEST_F(CaptureThreads, ConcurrentLaunchesOfOneExecutableGraphSucceed) {
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, captured(Streams{}, counts_), 0));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      ASSERT_OK(cuCtxSetCurrent(context_));
      for (unsigned round = 0; round < kRounds; ++round)
        ASSERT_OK(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
      ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(2 * kThreads * kRounds, counts_[0]);
}

}  // namespace
