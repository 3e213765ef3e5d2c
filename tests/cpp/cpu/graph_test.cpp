// SPDX-License-Identifier: Apache-2.0
// Graphs: built from nodes, captured, launched, updated.
#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "graph_support.hpp"

namespace {

class Graphs : public LoggedGraphTest {};

TEST_F(Graphs, NodesRunAfterTheirDependencies) {
  const CUgraphNode a = append_node(graph_, {}, 1), b = append_node(graph_, {a}, 2);
  append_node(graph_, {b}, 3);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 3; ++i) {
    run(exec);
    EXPECT_EQ((List{1, 2, 3}), logged());
  }
  std::size_t count = 0;
  ASSERT_OK(cuGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(3u, count);
  ASSERT_OK(cuGraphGetEdges(graph_, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(2u, count);
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream_));
}

TEST_F(Graphs, CyclesFailInstantiation) {
  const CUgraphNode a = append_node(graph_, {}, 1), b = append_node(graph_, {a}, 2);
  ASSERT_OK(cuGraphAddDependencies(graph_, &b, &a, nullptr, 1));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph_, &params));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, params.result_out);
}

TEST_F(Graphs, CaptureForksAndJoins) {
  CUstream side = nullptr;
  CUevent fork = nullptr, join = nullptr;
  ASSERT_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  kernel("append");
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch(kernel("append"), 1, stream_, log_, 1u));
  ASSERT_OK(cuEventRecord(fork, stream_));
  ASSERT_OK(cuStreamWaitEvent(side, fork, 0));
  CUstreamCaptureStatus status{};
  ASSERT_OK(cuStreamIsCapturing(side, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
  ASSERT_OK(launch(kernel("append"), 1, side, log_, 2u));
  ASSERT_OK(launch(kernel("append"), 1, stream_, log_, 2u));
  ASSERT_OK(cuEventRecord(join, side));
  EXPECT_EQ(CUDA_ERROR_CAPTURED_EVENT, [&] {
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    const CUresult result = cuEventQuery(join);
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    return result;
  }());
  ASSERT_OK(cuStreamWaitEvent(stream_, join, 0));
  ASSERT_OK(launch(kernel("append"), 1, stream_, log_, 3u));
  EXPECT_EQ(0u, log_[0]);  // nothing has run
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  std::size_t nodes = 0, edges = 0;
  ASSERT_OK(cuGraphGetNodes(captured, nullptr, &nodes));
  ASSERT_OK(cuGraphGetEdges(captured, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(4u, nodes);
  EXPECT_EQ(4u, edges);
  const CUgraphExec exec = instantiate(captured);
  run(exec);
  EXPECT_EQ((List{1, 2, 2, 3}), logged());
}

TEST_F(Graphs, DestroyedContextEndsItsCaptures) {
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  CUcontext other = nullptr;
  CUstream stream = nullptr, per_thread = CU_STREAM_PER_THREAD;
  CUdeviceptr p = 0;
  for (const bool created : {true, false}) {
    ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUstream captured = created ? stream : per_thread;
    ASSERT_OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_OK(cuMemAllocAsync(&p, 4096, captured));
    ASSERT_OK(cuCtxDestroy(other));
    EXPECT_OK(cuMemAlloc(&p, 16)) << "a capture that nobody can end forbids it";
    EXPECT_OK(cuMemFree(p));
  }
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after) << "what was captured is still there";
}

TEST_F(Graphs, FailedCaptureLeaksNoMemory) {
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  CUdeviceptr p = 0;
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemAllocAsync(&p, 4096, stream_));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 16));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

// promise: A call that a capture forbids is an error, and the stream is usable again after the
// builder is ended or closed
TEST_F(Graphs, CaptureErrorsReturnTheirCodes) {
  CUstream side = nullptr, blocking = nullptr;
  CUevent event = nullptr, outside = nullptr;
  ASSERT_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuEventCreate(&outside, 0));
  const CUfunction noop = kernel("noop");
  CUgraph captured = nullptr;
  CUdeviceptr p = 0;

  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream_, &captured));

  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 16));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(noop, 1, stream_));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(nullptr, captured);

  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_OK(cuMemAlloc(&p, 16));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream_));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));

  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_OK(launch(noop, 1, stream_));
  ASSERT_OK(cuEventRecord(event, stream_));
  ASSERT_OK(cuStreamWaitEvent(side, event, 0));
  ASSERT_OK(launch(noop, 1, side));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &captured));
  std::thread{[&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(stream_, &captured));
    EXPECT_OK(cuMemAlloc(&p, 16));  // thread-local captures do not bind other threads
  }}.join();
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));

  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuEventRecord(event, stream_));
  ASSERT_OK(cuStreamWaitEvent(side, event, 0));
  ASSERT_OK(launch(noop, 1, side));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream_, &captured));

  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream_, outside, 0));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));

  ASSERT_OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch(noop, 1, nullptr));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &captured));
}

TEST_F(Graphs, JoinedStreamCanBeDestroyedDuringCapture) {
  const CUfunction add = kernel("add");
  unsigned* sum = words(1);
  for (const bool joined : {true, false}) {
    CUstream side = nullptr;
    CUevent event = nullptr;
    ASSERT_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(cuEventRecord(event, stream_));
    ASSERT_OK(cuStreamWaitEvent(side, event, 0));
    ASSERT_OK(launch(add, 1, side, sum, 5u));
    if (joined) {
      ASSERT_OK(cuEventRecord(event, side));
      ASSERT_OK(cuStreamWaitEvent(stream_, event, 0));
    }
    ASSERT_OK(cuStreamDestroy(side));
    CUgraph captured = nullptr;
    EXPECT_EQ(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
              cuStreamEndCapture(stream_, &captured));
    if (joined) {
      CUgraphExec exec = nullptr;
      ASSERT_OK(cuGraphInstantiateWithFlags(&exec, captured, 0));
      ASSERT_OK(cuGraphLaunch(exec, stream_));
      ASSERT_OK(cuStreamSynchronize(stream_));
      EXPECT_EQ(5u, *sum);
      ASSERT_OK(cuGraphExecDestroy(exec));
      ASSERT_OK(cuGraphDestroy(captured));
    }
    ASSERT_OK(cuEventDestroy(event));
  }
}

TEST_F(Graphs, ParametersAreCopiedAtNodeCreation) {
  unsigned value = 5;
  void* args[] = {&log_, &value};
  auto params = kernel_params("append", args);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&node, graph_, nullptr, 0, &params));
  value = 6;
  const CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ((List{5}), logged());
  ASSERT_OK(cuGraphExecKernelNodeSetParams(exec, node, &params));
  run(exec);
  EXPECT_EQ((List{6}), logged());
  CUDA_KERNEL_NODE_PARAMS read{};
  ASSERT_OK(cuGraphKernelNodeGetParams(node, &read));
  EXPECT_EQ(5u, *static_cast<unsigned*>(read.kernelParams[1]));
  ASSERT_OK(cuGraphNodeSetEnabled(exec, node, 0));
  run(exec);
  EXPECT_EQ((List{}), logged());
}

TEST_F(Graphs, UpdateWithAnotherStructureFails) {
  append_node(graph_, {append_node(graph_, {}, 1)}, 2);
  const CUgraphExec exec = instantiate();
  CUgraph other = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  append_node(other, {append_node(other, {}, 7)}, 8);
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate(exec, other, &info));
  run(exec);
  EXPECT_EQ((List{7, 8}), logged());
  append_node(other, {}, 9);
  EXPECT_EQ(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, other, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
}

TEST_F(Graphs, ChildGraphsAreCopies) {
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  append_node(child, {}, 2);
  const CUgraphNode first = append_node(graph_, {}, 1);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph_, &first, 1, child));
  append_node(graph_, {node}, 3);
  append_node(child, {}, 99);
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph_));
  CUgraphNode twin = nullptr;
  ASSERT_OK(cuGraphNodeFindInClone(&twin, first, clone));
  ASSERT_OK(cuGraphDestroy(child));
  const CUgraphExec exec = instantiate(clone);
  run(exec);
  EXPECT_EQ((List{1, 2, 3}), logged());
}

TEST_F(Graphs, DestroyedCapturedNodesAreSkipped) {
  CUevent event = nullptr;
  CUstream other = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(log_), 1, 1, stream_));
  ASSERT_OK(cuEventRecord(event, stream_));
  CUstreamCaptureStatus status{};
  const CUgraphNode* last = nullptr;
  size_t count = 0;
  const auto ask = [&] {
    ASSERT_OK(cuStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, nullptr, &count));
  };
  ask();
  ASSERT_EQ(1u, count);
  ASSERT_OK(cuGraphDestroyNode(last[0]));
  ask();
  EXPECT_EQ(0u, count);
  ASSERT_OK(cuStreamWaitEvent(other, event, 0));  // of a destroyed node
  ASSERT_OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(log_), 2, 1, other));
  ASSERT_OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(log_ + 1), 3, 1, stream_));
  ASSERT_OK(cuEventRecord(event, other));
  ASSERT_OK(cuStreamWaitEvent(stream_, event, 0));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  ASSERT_OK(cuGraphGetNodes(captured, nullptr, &count));
  EXPECT_EQ(2u, count);
}

TEST_F(Graphs, LaunchEventsAreCaptured) {
  CUstream other = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  unsigned value = 1;
  void* args[] = {&log_, &value};
  for (const auto id :
       {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT}) {
    CUlaunchAttribute attribute{};
    attribute.id = id;
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
      attribute.value.programmaticEvent.event = event;
    else
      attribute.value.launchCompletionEvent.event = event;
    CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream_, &attribute, 1};
    ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(cuLaunchKernelEx(&config, kernel("append"), args, nullptr));
    ASSERT_OK(cuStreamWaitEvent(other, event, 0)) << "the other stream joins the capture";
    value = 2;
    ASSERT_OK(cuLaunchKernel(kernel("append"), 1, 1, 1, 1, 1, 1, 0, other, args, nullptr));
    ASSERT_OK(cuEventRecord(event, other));
    ASSERT_OK(cuStreamWaitEvent(stream_, event, 0));
    CUgraph captured = nullptr;
    ASSERT_OK(cuStreamEndCapture(stream_, &captured));
    CUgraphExec exec = nullptr;
    ASSERT_OK(cuGraphInstantiate(&exec, captured, 0));
    run(exec);
    EXPECT_EQ((List{1, 2}), logged());
    value = 1;
  }
  CUlaunchAttribute wrong{};
  wrong.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream_, &wrong, 1};
  log_[0] = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx(&config, kernel("append"), args, nullptr));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(0u, log_[0]) << "nothing was launched";
}

TEST_F(Graphs, CapturedAllocationsBecomeNodes) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 64, stream_));
  ASSERT_OK(cuMemsetD32Async(p, 17, 16, stream_));
  ASSERT_OK(cuMemcpyDtoHAsync(log_, p, 64, stream_));
  ASSERT_OK(cuMemFreeAsync(p, stream_));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  const CUgraphExec exec = instantiate(captured);
  for (int i = 0; i < 2; ++i) {
    log_[15] = 0;
    ASSERT_OK(cuGraphLaunch(exec, stream_));
    ASSERT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(17u, log_[15]);
  }
}

TEST_F(Graphs, UserObjectsAreDestroyedWithTheLastReference) {
  static int destroyed;
  destroyed = 0;
  CUuserObject object = nullptr;
  ASSERT_OK(cuUserObjectCreate(
      &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ASSERT_OK(cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = instantiate();
  ASSERT_OK(cuGraphDestroy(graph_));
  EXPECT_EQ(0, destroyed);
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(1, destroyed);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));
}

TEST_F(Graphs, DotOutputListsNodesAndEdges) {
  append_node(graph_, {append_node(graph_, {}, 1)}, 2);
  const std::string path = testing::TempDir() + "cucore_graph.dot";
  ASSERT_OK(cuGraphDebugDotPrint(graph_, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_NE(std::string::npos, text.find("digraph"));
  EXPECT_NE(std::string::npos, text.find("append"));
  EXPECT_NE(std::string::npos, text.find("->"));
  std::remove(path.c_str());
}

struct Changes {
  std::vector<CUgraphNode> nodes;
  CUresult answer = CUDA_SUCCESS;
};

CUresult note_change(void* data, CUgraphNode node, const CUgraphNodeParams* before,
                     const CUgraphNodeParams* after, CUgraphRecaptureStatus status) {
  auto& changes = *static_cast<Changes*>(data);
  EXPECT_EQ(before->type, after->type);
  EXPECT_EQ(CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE, status);
  changes.nodes.push_back(node);
  return changes.answer;
}

TEST_F(Graphs, RecaptureOfUnchangedOperationsReportsNoChange) {
  const auto capture = [&](unsigned value) {
    CUdeviceptr made = 0;
    EXPECT_OK(cuMemsetD32Async(address(log_), value, 1, stream_));
    EXPECT_OK(cuMemcpyAsync(address(log_) + 8, address(log_), 4, stream_));
    EXPECT_OK(cuLaunchHostFunc(
        stream_, [](void*) {}, &log_));
    EXPECT_OK(cuMemAllocAsync(&made, 64, stream_));
    EXPECT_OK(cuMemFreeAsync(made, stream_));
  };
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  capture(7);
  CUgraph graph = nullptr, again = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  for (const unsigned value : {7U, 8U}) {
    Changes changes;
    ASSERT_OK(cuStreamBeginRecaptureToGraph(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph,
                                            note_change, &changes));
    capture(value);
    ASSERT_OK(cuStreamEndCapture(stream_, &again)) << value;
    EXPECT_EQ(value == 7 ? 0u : 1u, changes.nodes.size());  // the fill
  }
}

TEST_F(Graphs, RecaptureUpdatesParameters) {
  kernel("append");  // loaded before a capture
  const auto capture = [&](List values) {
    for (const unsigned value : values)
      EXPECT_OK(launch(kernel("append"), 1, stream_, address(log_), value));
  };
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  capture({1, 2, 3});
  CUgraph graph = nullptr, again = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  const CUgraphExec exec = instantiate(graph);

  Changes changes;
  ASSERT_OK(cuStreamBeginRecaptureToGraph(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph,
                                          note_change, &changes));
  capture({1, 5, 3});
  ASSERT_OK(cuStreamEndCapture(stream_, &again));
  EXPECT_EQ(graph, again);
  EXPECT_EQ(1u, changes.nodes.size());
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate(exec, graph, &info));
  run(exec);
  EXPECT_EQ((List{1, 5, 3}), logged());

  ASSERT_OK(cuStreamBeginRecaptureToGraph(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph,
                                          nullptr, nullptr));
  capture({1, 5});
  EXPECT_EQ(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE,
            cuStreamEndCapture(stream_, &again));  // a node is missing

  ASSERT_OK(cuStreamBeginRecaptureToGraph(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph,
                                          nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE,
            cuMemsetD32Async(address(log_), 0, 1, stream_));  // another kind
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &again));

  changes.answer = CUDA_ERROR_INVALID_VALUE;
  ASSERT_OK(cuStreamBeginRecaptureToGraph(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph,
                                          note_change, &changes));
  EXPECT_EQ(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE,
            launch(kernel("append"), 1, stream_, address(log_), 8u));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &again));
}

}  // namespace
