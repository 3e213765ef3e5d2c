// SPDX-License-Identifier: Apache-2.0
// Graph launches by kernels: fire-and-forget and tail launches, and invalid launches.
#include <map>
#include <vector>

#include "support.hpp"

namespace {

constexpr std::uint64_t kTail = 0x0100000000000000, kBeside = 0x0200000000000000,
                        kSibling = 0x0300000000000000;
constexpr unsigned long long kDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
using List = std::vector<unsigned>;

class DeviceGraphs : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    log_ = words(1024);
  }
  CUgraph graph() {
    CUgraph made = nullptr;
    EXPECT_OK(cuGraphCreate(&made, 0));
    return made;
  }
  template <class... Args>
  void add(CUgraph graph, const char* name, Args... args) {
    void* params[] = {&args...};
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = kernel(name);
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = params;
    CUgraphNode& last = last_[graph];
    CUgraphNode node = nullptr;
    ASSERT_OK(cuGraphAddKernelNode(&node, graph, last ? &last : nullptr, last ? 1 : 0, &p));
    last = node;
  }
  void say(CUgraph graph, unsigned value) { add(graph, "append", address(log_), value); }
  /// Adds a node that launches a graph (0: its own) until the counter is 0. Returns the counter,
  /// which is followed by the result of the last launch.
  unsigned* launches(CUgraph graph, CUgraphExec exec, std::uint64_t how, unsigned times = 1) {
    unsigned* counter = words(2);
    counter[0] = times + 1;
    counter[1] = 77;
    add(graph, "relaunch", address(counter), reinterpret_cast<std::uint64_t>(exec), how);
    return counter;
  }
  CUgraphExec ready(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph, flags));
    EXPECT_OK(cuGraphUpload(exec, stream_));
    return exec;
  }
  CUgraphExec saying(unsigned value) {
    const CUgraph made = graph();
    say(made, value);
    return ready(made, kDevice);
  }
  List logged() {
    EXPECT_OK(cuStreamSynchronize(stream_));
    return {log_ + 1, log_ + 1 + log_[0]};
  }
  CUstream stream_ = nullptr;
  unsigned* log_ = nullptr;
  std::map<CUgraph, CUgraphNode> last_;
};

TEST_F(DeviceGraphs, TailLaunchOfItselfRepeatsUntilItStops) {
  const CUgraph loop = graph();
  say(loop, 1);
  const unsigned* counter = launches(loop, nullptr, kTail, 500);
  const CUgraphExec exec = ready(loop, kDevice);
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(launch(kernel("append"), 1, stream_, address(log_), 2u));  // after all launches
  const List found = logged();
  ASSERT_EQ(502u, found.size());
  EXPECT_EQ(2u, found.back());
  EXPECT_EQ(0u, counter[0]);
  EXPECT_EQ(0u, counter[1]);
}

TEST_F(DeviceGraphs, FireAndForgetGraphCompletesWithItsLauncher) {
  const CUgraph host = graph();
  unsigned* flag = words(1);
  const CUgraph beside = graph();
  add(beside, "spin", address(flag));
  say(beside, 5);
  const unsigned* counter = launches(host, ready(beside, kDevice), kBeside);
  say(host, 4);
  const CUgraphExec exec = ready(host);
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  while (std::atomic_ref{log_[0]}.load() == 0) {
  }
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));  // the other one still runs
  std::atomic_ref{* flag} = 1u;
  EXPECT_EQ((List{4, 5}), logged());
  EXPECT_EQ(0u, counter[1]);
}

TEST_F(DeviceGraphs, TailGraphsRunInOrderWithTheirOwnLaunches) {
  const CUgraph first = graph();
  say(first, 1);
  const unsigned* inner = launches(first, saying(2), kTail);
  const CUgraph host = graph();
  launches(host, ready(first, kDevice), kTail);
  launches(host, saying(3), kTail);
  say(host, 0);
  ASSERT_OK(cuGraphLaunch(ready(host), stream_));
  EXPECT_EQ((List{0, 1, 2, 3}), logged());
  EXPECT_EQ(0u, inner[1]);
}

TEST_F(DeviceGraphs, SiblingLaunchRunsConcurrently) {
  const CUgraph child = graph();
  const unsigned* counter = launches(child, saying(9), kSibling);
  const CUgraph host = graph();
  launches(host, ready(child, kDevice), kBeside);
  const unsigned* none =
      launches(host, saying(8), kSibling);  // invalid: no kernel launched this graph
  ASSERT_OK(cuGraphLaunch(ready(host), stream_));
  EXPECT_EQ((List{9}), logged());
  EXPECT_EQ(0u, counter[1]);
  EXPECT_EQ(1u, none[1]);
}

TEST_F(DeviceGraphs, LaunchOutsideOfAGraphFails) {
  const CUgraphExec exec = saying(1);
  unsigned* counter = words(2);
  counter[0] = 2;
  ASSERT_OK(launch(kernel("relaunch"), 1, stream_, address(counter),
                   reinterpret_cast<std::uint64_t>(exec), kTail));
  EXPECT_EQ(List{}, logged());
  EXPECT_EQ(800u, counter[1]);
}

TEST_F(DeviceGraphs, LaunchWithoutFlagOrUploadFails) {
  const CUgraph plain = graph(), late = graph(), self = graph();
  say(plain, 1);
  say(late, 2);
  CUgraphExec not_uploaded = nullptr;
  ASSERT_OK(cuGraphInstantiate(&not_uploaded, late, kDevice));
  const CUgraph host = graph();
  const unsigned* answers[] = {launches(host, ready(plain), kTail),
                               launches(host, not_uploaded, kTail),
                               launches(host, saying(3), 12345)};
  ASSERT_OK(cuGraphLaunch(ready(host), stream_));
  const unsigned* beside_itself = launches(self, nullptr, kBeside);
  ASSERT_OK(cuGraphLaunch(ready(self, kDevice), stream_));
  EXPECT_EQ(List{}, logged());
  for (const unsigned* answer : answers) EXPECT_EQ(1u, answer[1]);
  EXPECT_EQ(1u, beside_itself[1]);
}

TEST_F(DeviceGraphs, OtherNodeKindsFailInstantiation) {
  const CUgraph made = graph();
  say(made, 1);
  CUgraphNode empty = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&empty, made, nullptr, 0));
  CUgraphExec exec = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&exec, made, kDevice));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = kDevice;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithParams(&exec, made, &params));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, params.result_out);
  EXPECT_EQ(empty, params.hErrNode_out);
  ASSERT_OK(cuGraphDestroyNode(empty));
  EXPECT_EQ(
      CUDA_ERROR_INVALID_VALUE,
      cuGraphInstantiate(&exec, made, kDevice | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
}

TEST_F(DeviceGraphs, UpdateDuringARunAffectsTheNextRun) {
  const CUgraph loop = graph();
  unsigned* flag = words(1);
  add(loop, "spin", address(flag));
  say(loop, 1);
  const CUgraphNode saying_one = last_[loop];
  const CUgraphExec exec = ready(loop, kDevice);
  const CUgraph host = graph();
  launches(host, exec, kTail);
  ASSERT_OK(cuGraphLaunch(ready(host), stream_));
  ASSERT_OK(cuGraphNodeSetEnabled(exec, saying_one, 0));
  std::atomic_ref{* flag} = 1u;
  EXPECT_LE(logged().size(),
            1u);  // the update came before or after the start of the run; never in between
  log_[0] = 0;
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_EQ(List{}, logged());
}

}  // namespace
