// SPDX-License-Identifier: Apache-2.0
// Captures into a graph that is destroyed before the capture ends: the capture becomes invalid and
// leaks nothing.
#include "graph_support.hpp"

namespace {

class CaptureLifetime : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    free_ = free_memory();
  }
  static std::size_t free_memory() {
    std::size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo(&free, &total));
    return free;
  }
  void capture_into(CUgraph graph) {
    ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, graph, nullptr, nullptr, 0,
                                          CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr memory = 0;
    ASSERT_OK(cuMemAllocAsync(&memory, 1 << 16, stream_));
  }
  /// The graph of an active capture, from cuStreamGetCaptureInfo.
  CUgraph graph_of_capture() {
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamGetCaptureInfo(stream_, &status, nullptr, &graph, nullptr, nullptr, nullptr));
    return graph;
  }
  /// Expects that the capture is invalid, and that its end restores the state before.
  void expect_invalid_until_the_end() {
    CUstreamCaptureStatus status{};
    EXPECT_OK(cuStreamIsCapturing(stream_, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status);
    CUdeviceptr memory = 0;
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemAllocAsync(&memory, 1 << 16, stream_));
    unsigned* const word = words(1);
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              cuMemsetD32Async(address(word), 1, 1, stream_));
    CUgraph captured = nullptr;
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));
    EXPECT_EQ(nullptr, captured);
    EXPECT_EQ(free_, free_memory());
    EXPECT_OK(cuMemsetD32Async(address(word), 7, 1, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(7u, *word);
  }

  std::size_t free_ = 0;
};

/// As on an H200.
TEST_F(CaptureLifetime, DestroyingTheGraphDuringCaptureFails) {
  capture_into(graph_);
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroy(graph_));
  CUstream second = nullptr;
  ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE,
            cuStreamBeginCaptureToGraph(second, graph_, nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuStreamDestroy(second));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(graph_, captured);
  ASSERT_OK(cuGraphDestroy(graph_));
  EXPECT_EQ(free_, free_memory());
}

TEST_F(CaptureLifetime, DestroyingTheCapturesOwnGraphFails) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroy(graph_of_capture()));
  ASSERT_OK(cuStreamDestroy(stream_));
  EXPECT_EQ(free_, free_memory());
}

TEST_F(CaptureLifetime, DestroyingTheParentGraphInvalidatesCaptureIntoBody) {
  capture_into(add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 0).body);
  ASSERT_OK(cuGraphDestroy(graph_));
  expect_invalid_until_the_end();
}

TEST_F(CaptureLifetime, DestroyingTheConditionalNodeInvalidatesCaptureIntoBody) {
  const Condition condition = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 0);
  capture_into(condition.body);
  ASSERT_OK(cuGraphDestroyNode(condition.node));
  expect_invalid_until_the_end();
}

TEST_F(CaptureLifetime, DestroyingTheStreamEndsCaptureIntoDestroyedGraph) {
  capture_into(add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 0).body);
  ASSERT_OK(cuGraphDestroy(graph_));
  CUdeviceptr memory = 0;
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemAllocAsync(&memory, 1 << 16, stream_));
  ASSERT_OK(cuStreamDestroy(stream_));
  EXPECT_EQ(free_, free_memory());
}

// Slots of handles are reused: retiring a handle twice would end the handle of another object.
TEST_F(CaptureLifetime, EndOfInvalidCaptureLeavesReusedHandlesAlone) {
  constexpr int kMany = 10000;
  const Condition condition = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 0);
  capture_into(condition.body);
  for (int i = 0; i < kMany; ++i)
    ASSERT_OK(cuLaunchHostFunc(
        stream_, [](void*) {}, nullptr));
  ASSERT_OK(cuGraphDestroyNode(condition.node));
  std::vector<CUgraphNode> nodes(kMany);
  for (CUgraphNode& node : nodes) ASSERT_OK(cuGraphAddEmptyNode(&node, graph_, nullptr, 0));
  CUgraph captured = nullptr;
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    ASSERT_OK(cuGraphNodeGetType(node, &type));
  }
}

}  // namespace
