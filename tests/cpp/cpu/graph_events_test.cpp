// SPDX-License-Identifier: Apache-2.0
// Events in graphs: a launch records and waits like calls at that time.
#include "support.hpp"

namespace {

class GraphEvents : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&event_, 0));
    flags_ = words(2);
    ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  }
  void spin(int flag) { ASSERT_OK(launch(kernel("spin"), 1, stream_, address(flags_ + flag))); }
  void record() { ASSERT_OK(cuEventRecordWithFlags(event_, stream_, CU_EVENT_RECORD_EXTERNAL)); }
  void wait() { ASSERT_OK(cuStreamWaitEvent(stream_, event_, CU_EVENT_WAIT_EXTERNAL)); }
  /// Ends the capture.
  void instantiate() {
    CUgraph graph = nullptr;
    ASSERT_OK(cuStreamEndCapture(stream_, &graph));
    ASSERT_OK(cuGraphInstantiate(&exec_, graph, 0));
    ASSERT_OK(cuGraphDestroy(graph));
  }
  void set(int flag, unsigned value) { std::atomic_ref{flags_[flag]} = value; }

  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
  CUgraphExec exec_ = nullptr;
  unsigned* flags_ = nullptr;
};

TEST_F(GraphEvents, EveryLaunchRecords) {
  spin(0);
  record();
  instantiate();
  EXPECT_OK(cuEventQuery(event_));  // no launch, no record
  for (int round = 0; round < 3; ++round) {
    set(0, 0);
    ASSERT_OK(cuGraphLaunch(exec_, stream_));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event_));
    ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(other_));
    set(0, 1);
    ASSERT_OK(cuEventSynchronize(event_));
    ASSERT_OK(cuStreamSynchronize(other_));
    ASSERT_OK(cuStreamSynchronize(stream_));
  }
}

TEST_F(GraphEvents, RecordCompletesBeforeTheGraph) {
  spin(0);
  record();
  spin(1);
  instantiate();
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  set(0, 1);
  ASSERT_OK(cuEventSynchronize(event_));
  ASSERT_OK(cuStreamSynchronize(other_));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  set(1, 1);
  ASSERT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphEvents, ChildGraphEventsAreRecorded) {
  spin(0);
  record();
  CUgraph child = nullptr, graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &child));
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  ASSERT_OK(cuGraphInstantiate(&exec_, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event_));
  set(0, 1);
  ASSERT_OK(cuEventSynchronize(event_));
}

TEST_F(GraphEvents, WaitUsesTheRecordAtTheLaunch) {
  wait();
  instantiate();
  ASSERT_OK(cuEventRecord(event_, other_));
  spin(0);
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  ASSERT_OK(
      cuEventRecord(event_, stream_));  // recorded after the graph, which must not wait for itself
  set(0, 1);
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuEventQuery(event_));
}

TEST_F(GraphEvents, WaitPrecedesTheRecordOfTheSameLaunch) {
  wait();
  spin(0);
  record();
  instantiate();
  set(0, 1);
  for (int round = 0; round < 3; ++round) ASSERT_OK(cuGraphLaunch(exec_, stream_));
  ASSERT_OK(cuEventSynchronize(event_));
  ASSERT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphEvents, DestroyedEventsStillWorkInGraphs) {
  spin(0);
  record();
  instantiate();
  ASSERT_OK(cuEventDestroy(event_));
  set(0, 1);
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphEvents, RecordsCompleteWhenTheGraphFails) {
  ASSERT_OK(launch(kernel("fault"), 1, stream_, 700u));
  record();
  instantiate();
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventSynchronize(event_));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream_));
}

TEST_F(GraphEvents, ElapsedTimeBetweenNodesIsMeasured) {
  CUevent end = nullptr;
  ASSERT_OK(cuEventCreate(&end, 0));
  record();
  spin(0);
  ASSERT_OK(cuEventRecordWithFlags(end, stream_, CU_EVENT_RECORD_EXTERNAL));
  instantiate();
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  float passed = -1;
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&passed, event_, end));
  set(0, 1);
  ASSERT_OK(cuEventSynchronize(end));
  ASSERT_OK(cuEventElapsedTime(&passed, event_, end));
  EXPECT_GT(passed, 0.0f);
}

}  // namespace
