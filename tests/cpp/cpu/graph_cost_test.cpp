// SPDX-License-Identifier: Apache-2.0
// The cost of a graph launch for its caller, compared to single launches of the same kernels: ratio
// of processor time of the calling thread.
#include <ctime>

#include "support.hpp"

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class GraphCost : public DriverTest {};

TEST_F(GraphCost, LaunchingTwentyKernelsAsAGraphCostsLessThanHalfOfTwentyLaunches) {
  constexpr int kKernels = 20, kRounds = 200;
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUfunction noop = kernel("noop");
  const auto launch_all = [&] {
    for (int i = 0; i < kKernels; ++i)
      ASSERT_OK(cuLaunchKernel(noop, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  };
  ASSERT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch_all();
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  double apart = 0, together = 0;
  for (int round = 0; round < kRounds;
       ++round) {  // alternating, so that both run under the same conditions
    double begin = thread_seconds();
    launch_all();
    apart += thread_seconds() - begin;
    ASSERT_OK(cuStreamSynchronize(stream));
    begin = thread_seconds();
    ASSERT_OK(cuGraphLaunch(exec, stream));
    together += thread_seconds() - begin;
    ASSERT_OK(cuStreamSynchronize(stream));
  }
  RecordProperty("ratio", std::to_string(apart / together));
  EXPECT_LT(together, apart / 2);
}

}  // namespace
