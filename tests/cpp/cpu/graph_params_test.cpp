// SPDX-License-Identifier: Apache-2.0
// Nodes of every kind: parameters can be set and read, in graphs and in executable graphs.
#include <atomic>
#include <cstring>

#include "graph_support.hpp"

namespace {

void bump(void* data) { ++*static_cast<std::atomic<int>*>(data); }

class GraphNodes : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    kernel("append");
    log_ = words(64);
    word_ = words(16);
  }
  CUgraphNode append_node(unsigned value) { return kernel_node(graph_, {}, "append", log_, value); }
  CUDA_MEMCPY3D copy(void* to, const void* from, std::size_t bytes) {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = from, c.dstHost = to;
    c.WidthInBytes = bytes;
    c.Height = c.Depth = 1;
    return c;
  }
  unsigned *log_ = nullptr, *word_ = nullptr;
};

TEST_F(GraphNodes, KernelArgumentsChange) {
  const CUgraphNode node = append_node(1);
  CUgraphExec exec = instantiate();
  unsigned value = 7;
  void* args[] = {&log_, &value};
  auto p = kernel_params("append", args);
  ASSERT_OK(cuGraphKernelNodeSetParams(node, &p));
  run(exec);
  EXPECT_EQ(1u, log_[1]);  // the executable graph is independent
  log_[0] = 0;
  run(instantiate());
  EXPECT_EQ(7u, log_[1]);
  CUDA_KERNEL_NODE_PARAMS read{};
  ASSERT_OK(cuGraphKernelNodeGetParams(node, &read));
  EXPECT_EQ(7u, *static_cast<unsigned*>(read.kernelParams[1]));
  p.blockDimX = 5000;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams(node, &p));
}

TEST_F(GraphNodes, KernelAttributesAreCopied) {
  const CUgraphNode from = append_node(1), to = append_node(2);
  CUkernelNodeAttrValue value{}, read{};
  value.priority = -3;
  ASSERT_OK(cuGraphKernelNodeSetAttribute(from, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  ASSERT_OK(cuGraphKernelNodeGetAttribute(from, CU_LAUNCH_ATTRIBUTE_PRIORITY, &read));
  EXPECT_EQ(-3, read.priority);
  ASSERT_OK(cuGraphKernelNodeCopyAttributes(to, from));
  read = {};
  ASSERT_OK(cuGraphKernelNodeGetAttribute(to, CU_LAUNCH_ATTRIBUTE_PRIORITY, &read));
  EXPECT_EQ(-3, read.priority);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeCopyAttributes(to, nullptr));
}

TEST_F(GraphNodes, KernelAttributesSurviveParameterChanges) {
  unsigned value = 1;
  void* args[] = {&log_, &value};
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuLaunchCooperativeKernel(kernel("append"), 1, 1, 1, 1, 1, 1, 0, stream_, args));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  ASSERT_OK(cuGraphGetNodes(captured, &node, &count));
  const auto is_cooperative = [&] {
    CUkernelNodeAttrValue read{};
    EXPECT_OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &read));
    return read.cooperative;
  };
  EXPECT_EQ(1, is_cooperative());
  auto p = kernel_params("append", args);
  ASSERT_OK(cuGraphKernelNodeSetParams(node, &p));
  EXPECT_EQ(1, is_cooperative());
  CUgraphNodeParams any{};
  any.type = CU_GRAPH_NODE_TYPE_KERNEL;
  std::memcpy(&any.kernel, &p, sizeof p);
  ASSERT_OK(cuGraphNodeSetParams(node, &any));
  EXPECT_EQ(1, is_cooperative());
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, captured, 0));
  any.kernel.gridDimX = 1u << 30;  // more blocks than can run concurrently
  EXPECT_EQ(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuGraphExecNodeSetParams(exec, node, &any));
  any.kernel.gridDimX = 1;
  ASSERT_OK(cuGraphExecNodeSetParams(exec, node, &any));
  run(exec);
  EXPECT_EQ(1u, log_[0]);
}

TEST_F(GraphNodes, CopiesAndFillsChange) {
  word_[0] = 5, word_[1] = 6;
  CUgraphNode moves = nullptr, fills = nullptr;
  auto c = copy(&word_[4], &word_[0], 4);
  ASSERT_OK(cuGraphAddMemcpyNode(&moves, graph_, nullptr, 0, &c, context_));
  CUDA_MEMSET_NODE_PARAMS m{};
  m.dst = address(&word_[5]);
  m.value = 9;
  m.elementSize = 4;
  m.width = m.height = 1;
  ASSERT_OK(cuGraphAddMemsetNode(&fills, graph_, &moves, 1, &m, context_));
  CUDA_MEMCPY3D read{};
  ASSERT_OK(cuGraphMemcpyNodeGetParams(moves, &read));
  EXPECT_EQ(4u, read.WidthInBytes);
  CUDA_MEMSET_NODE_PARAMS read_fill{};
  ASSERT_OK(cuGraphMemsetNodeGetParams(fills, &read_fill));
  EXPECT_EQ(9u, read_fill.value);
  CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ(5u, word_[4]);
  EXPECT_EQ(9u, word_[5]);
  c = copy(&word_[4], &word_[1], 4);
  m.value = 11;
  ASSERT_OK(cuGraphExecMemcpyNodeSetParams(exec, moves, &c, context_));
  ASSERT_OK(cuGraphExecMemsetNodeSetParams(exec, fills, &m, context_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, moves, &m, context_));
  run(exec);
  EXPECT_EQ(6u, word_[4]);
  EXPECT_EQ(11u, word_[5]);
  ASSERT_OK(cuGraphMemcpyNodeSetParams(moves, &c));
  m.value = 13;
  ASSERT_OK(cuGraphMemsetNodeSetParams(fills, &m));
  run(instantiate());
  EXPECT_EQ(13u, word_[5]);
  m.elementSize = 3;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(fills, &m));
  unsigned on = 9;
  ASSERT_OK(cuGraphNodeGetEnabled(exec, fills, &on));
  EXPECT_EQ(1u, on);
  ASSERT_OK(cuGraphNodeSetEnabled(exec, fills, 0));
  ASSERT_OK(cuGraphNodeGetEnabled(exec, fills, &on));
  EXPECT_EQ(0u, on);
}

TEST_F(GraphNodes, HostFunctionsChange) {
  std::atomic<int> first{0}, second{0};
  CUDA_HOST_NODE_PARAMS p{bump, &first}, read{};
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddHostNode(&node, graph_, nullptr, 0, &p));
  CUgraphExec exec = instantiate();
  p.userData = &second;
  ASSERT_OK(cuGraphExecHostNodeSetParams(exec, node, &p));
  run(exec);
  EXPECT_EQ(0, first.load());
  EXPECT_EQ(1, second.load());
  ASSERT_OK(cuGraphHostNodeGetParams(node, &read));
  EXPECT_EQ(&first, read.userData);
  ASSERT_OK(cuGraphHostNodeSetParams(node, &p));
  ASSERT_OK(cuGraphHostNodeGetParams(node, &read));
  EXPECT_EQ(&second, read.userData);
  p.fn = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeSetParams(node, &p));
}

TEST_F(GraphNodes, EventNodesRecordAndWait) {
  CUevent first = nullptr, second = nullptr, read = nullptr;
  ASSERT_OK(cuEventCreate(&first, 0));
  ASSERT_OK(cuEventCreate(&second, 0));
  CUgraphNode waits = nullptr, records = nullptr;
  ASSERT_OK(cuGraphAddEventWaitNode(&waits, graph_, nullptr, 0, first));
  ASSERT_OK(cuGraphAddEventRecordNode(&records, graph_, &waits, 1, second));
  ASSERT_OK(cuGraphEventWaitNodeGetEvent(waits, &read));
  EXPECT_EQ(first, read);
  ASSERT_OK(cuGraphEventRecordNodeGetEvent(records, &read));
  EXPECT_EQ(second, read);
  CUgraphExec exec = instantiate();
  CUstream other = nullptr;
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  unsigned* flag = words(1);
  ASSERT_OK(launch(kernel("spin"), 1, other, address(flag)));
  ASSERT_OK(cuEventRecordWithFlags(first, other, CU_EVENT_RECORD_DEFAULT));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuEventQuery(second));
  float passed = -1;
  EXPECT_OK(cuEventElapsedTime(&passed, first, second));
  EXPECT_GE(passed, 0.0f);
  CUevent third = nullptr;
  ASSERT_OK(cuEventCreate(&third, 0));
  ASSERT_OK(cuGraphExecEventRecordNodeSetEvent(exec, records, third));
  ASSERT_OK(cuGraphExecEventWaitNodeSetEvent(exec, waits, second));
  run(exec);
  EXPECT_OK(cuEventElapsedTime(&passed, first, third));
  ASSERT_OK(cuGraphEventRecordNodeSetEvent(records, third));
  ASSERT_OK(cuGraphEventRecordNodeGetEvent(records, &read));
  EXPECT_EQ(third, read);
  ASSERT_OK(cuGraphEventWaitNodeSetEvent(waits, third));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphEventWaitNodeSetEvent(records, third));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphEventWaitNodeSetEvent(waits, nullptr));
}

TEST_F(GraphNodes, MemoryOperationsChange) {
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = address(word_);
  op.writeValue.value = 3;
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{context_, 1, &op, 0}, read{};
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddBatchMemOpNode(&node, graph_, nullptr, 0, &p));
  CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ(3u, word_[0]);
  op.writeValue.value = 4;
  ASSERT_OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
  run(exec);
  EXPECT_EQ(4u, word_[0]);
  ASSERT_OK(cuGraphBatchMemOpNodeGetParams(node, &read));
  EXPECT_EQ(3u, read.paramArray[0].writeValue.value);
  ASSERT_OK(cuGraphBatchMemOpNodeSetParams(node, &p));
  ASSERT_OK(cuGraphBatchMemOpNodeGetParams(node, &read));
  EXPECT_EQ(4u, read.paramArray[0].writeValue.value);
  p.count = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphBatchMemOpNodeSetParams(node, &p));
}

TEST_F(GraphNodes, MemoryNodesAllocateAndFree) {
  CUDA_MEM_ALLOC_NODE_PARAMS p{}, read{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.bytesize = 1 << 16;
  CUgraphNode takes = nullptr, fills = nullptr, gives = nullptr;
  ASSERT_OK(cuGraphAddMemAllocNode(&takes, graph_, nullptr, 0, &p));
  ASSERT_NE(0u, p.dptr);
  CUDA_MEMSET_NODE_PARAMS m{};
  m.dst = p.dptr, m.elementSize = 4, m.width = 4, m.height = 1, m.value = 2;
  ASSERT_OK(cuGraphAddMemsetNode(&fills, graph_, &takes, 1, &m, context_));
  ASSERT_OK(cuGraphAddMemFreeNode(&gives, graph_, &fills, 1, p.dptr));
  ASSERT_OK(cuGraphMemAllocNodeGetParams(takes, &read));
  EXPECT_EQ(p.dptr, read.dptr);
  CUdeviceptr freed = 0;
  ASSERT_OK(cuGraphMemFreeNodeGetParams(gives, &freed));
  EXPECT_EQ(p.dptr, freed);
  CUgraphExec exec = instantiate();
  run(exec);
  run(exec);
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(takes));
  cuuint64_t bytes = 0;
  ASSERT_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &bytes));
  EXPECT_GE(bytes, 1u << 16);
  ASSERT_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes));
  bytes = 0;
  ASSERT_OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes));
  bytes = 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes));
  ASSERT_OK(cuDeviceGraphMemTrim(0));
}

TEST_F(GraphNodes, ChildGraphsChange) {
  CUgraph child = nullptr, inside = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  const auto fill = [&](CUgraph graph, unsigned value) {
    CUDA_MEMSET_NODE_PARAMS m{};
    m.dst = address(word_), m.elementSize = 4, m.width = m.height = 1, m.value = value;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &m, context_));
    return node;
  };
  fill(child, 1);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph_, nullptr, 0, child));
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(node, &inside));
  EXPECT_NE(child, inside);  // a copy
  CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ(1u, word_[0]);
  CUgraph other = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  fill(other, 2);
  ASSERT_OK(cuGraphExecChildGraphNodeSetParams(exec, node, other));
  run(exec);
  EXPECT_EQ(2u, word_[0]);
  fill(other, 3);  // another shape
  EXPECT_EQ(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            cuGraphExecChildGraphNodeSetParams(exec, node, other));
}

TEST_F(GraphNodes, GenericParametersRoundTrip) {
  CUgraphNodeParams p{}, read{};
  p.type = CU_GRAPH_NODE_TYPE_MEMSET;
  p.memset.dst = address(word_);
  p.memset.elementSize = 4;
  p.memset.width = p.memset.height = 1;
  p.memset.value = 21;
  p.memset.ctx = context_;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &p));
  CUgraphExec exec = instantiate();
  p.memset.value = 22;
  ASSERT_OK(cuGraphExecNodeSetParams(exec, node, &p));
  run(exec);
  EXPECT_EQ(22u, word_[0]);
  ASSERT_OK(cuGraphNodeGetParams(node, &read));
  EXPECT_EQ(21u, read.memset.value);
  ASSERT_OK(cuGraphNodeSetParams(node, &p));
  ASSERT_OK(cuGraphNodeGetParams(node, &read));
  EXPECT_EQ(22u, read.memset.value);
  p.type = CU_GRAPH_NODE_TYPE_HOST;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(node, &p));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, node, &p));
}

TEST_F(GraphNodes, QueriesReturnGraphIdAndNeighbours) {
  CUgraphNode a = nullptr, b = nullptr, c = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&a, graph_, nullptr, 0));
  ASSERT_OK(cuGraphAddEmptyNode(&b, graph_, &a, 1));
  ASSERT_OK(cuGraphAddEmptyNode(&c, graph_, &a, 1));
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphNodeGetContainingGraph(b, &graph));
  EXPECT_EQ(graph_, graph);
  unsigned id = 0, first = 0, second = 0;
  unsigned long long tools = 0;
  ASSERT_OK(cuGraphGetId(graph_, &id));
  ASSERT_OK(cuGraphNodeGetLocalId(a, &first));
  ASSERT_OK(cuGraphNodeGetLocalId(b, &second));
  EXPECT_NE(first, second);
  ASSERT_OK(cuGraphNodeGetToolsId(b, &tools));
  EXPECT_EQ(id, tools >> 32);
  CUgraphNode list[4] = {};
  std::size_t count = 4;
  ASSERT_OK(cuGraphGetRootNodes(graph_, list, &count));
  ASSERT_EQ(1u, count);
  EXPECT_EQ(a, list[0]);
  count = 4;
  ASSERT_OK(cuGraphNodeGetDependentNodes(a, list, nullptr, &count));
  EXPECT_EQ(2u, count);
  count = 4;
  ASSERT_OK(cuGraphNodeGetDependencies(c, list, nullptr, &count));
  ASSERT_EQ(1u, count);
  EXPECT_EQ(a, list[0]);
  ASSERT_OK(cuGraphRemoveDependencies(graph_, &a, &c, nullptr, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph_, &a, &c, nullptr, 1));
  ASSERT_OK(cuGraphDestroyNode(b));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetLocalId(b, &first));
  count = 4;
  ASSERT_OK(cuGraphGetNodes(graph_, list, &count));
  EXPECT_EQ(2u, count);
}

TEST_F(GraphNodes, ExecutableGraphsReportFlagsAndId) {
  append_node(1);
  CUgraphExec exec = nullptr, other = instantiate();
  ASSERT_OK(
      cuGraphInstantiateWithFlags(&exec, graph_, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  cuuint64_t flags = 0;
  ASSERT_OK(cuGraphExecGetFlags(exec, &flags));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, flags);
  unsigned a = 0, b = 0;
  ASSERT_OK(cuGraphExecGetId(exec, &a));
  ASSERT_OK(cuGraphExecGetId(other, &b));
  EXPECT_NE(a, b);
  ASSERT_OK(cuGraphUpload(exec, stream_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphUpload(nullptr, stream_));
}

TEST_F(GraphNodes, UserObjectsAreReferenceCounted) {
  std::atomic<int> gone{0};
  CUuserObject object = nullptr;
  ASSERT_OK(cuUserObjectCreate(&object, &gone, bump, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ASSERT_OK(cuUserObjectRetain(object, 2));
  ASSERT_OK(cuGraphRetainUserObject(graph_, object, 1, 0));
  ASSERT_OK(cuUserObjectRelease(object, 3));
  EXPECT_EQ(0, gone.load());
  ASSERT_OK(cuGraphReleaseUserObject(graph_, object, 1));
  EXPECT_EQ(1, gone.load());
}

TEST_F(GraphNodes, CaptureIntoAGraphExtendsIt) {
  const CUgraphNode first = append_node(1);
  ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, graph_, &first, nullptr, 1,
                                        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_OK(launch(kernel("append"), 1, stream_, address(log_), 2u));
  CUgraphNode target = first;
  ASSERT_OK(cuStreamUpdateCaptureDependencies(stream_, &target, nullptr, 1,
                                              CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  ASSERT_OK(launch(kernel("append"), 1, stream_, address(log_), 3u));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  EXPECT_EQ(graph_, graph);
  std::size_t edges = 0;
  ASSERT_OK(cuGraphGetEdges(graph_, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(3u, edges);  // 1-2, 2-3 and the one that was added
  run(instantiate());
  EXPECT_EQ((std::vector<unsigned>{1, 2, 3}), (std::vector<unsigned>{log_ + 1, log_ + 4}));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE,
            cuStreamUpdateCaptureDependencies(stream_, &target, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

}  // namespace
