// SPDX-License-Identifier: Apache-2.0
// Memory of graphs: from a launch to the free, independent of the lifetime of the graph.
#include <unistd.h>

#include <atomic>
#include <vector>

#include "support.hpp"

namespace {

class GraphMemory : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    flag_ = words(1);
    seen_ = words(16);
    kernel("spin");
  }
  void TearDown() override {
    std::atomic_ref<unsigned>{* flag_} = 1;
    // Graphs are not destroyed with a context. Destroying one twice fails.
    for (const CUgraphExec exec : execs_) cuGraphExecDestroy(exec);
    for (const CUgraph graph : graphs_) cuGraphDestroy(graph);
    DriverTest::TearDown();
  }
  /// A graph that allocates memory and fills it with `value`, and frees it if `freed`.
  CUgraph captured(unsigned value, bool freed = false) {
    EXPECT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(cuMemAllocAsync(&memory_, 64, stream_));
    EXPECT_OK(cuMemsetD32Async(memory_, value, 16, stream_));
    if (freed) {
      EXPECT_OK(cuMemFreeAsync(memory_, stream_));
    }
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(stream_, &graph));
    graphs_.push_back(graph);
    return graph;
  }
  CUgraphExec ready(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
    execs_.push_back(exec);
    graphs_.push_back(graph);
    return exec;
  }
  /// Work queued from now on waits for release().
  void hold() {
    std::atomic_ref<unsigned>{* flag_} = 0;
    ASSERT_OK(launch(kernel("spin"), 1, stream_, address(flag_)));
  }
  void release() {
    std::atomic_ref<unsigned>{* flag_} = 1;
    ASSERT_OK(cuStreamSynchronize(stream_));
  }
  cuuint64_t bytes(CUgraphMem_attribute attribute) {
    cuuint64_t value = ~cuuint64_t{0};
    EXPECT_OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
  }

  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  std::vector<CUgraph> graphs_;
  std::vector<CUgraphExec> execs_;
  unsigned *flag_ = nullptr, *seen_ = nullptr;
};

TEST_F(GraphMemory, MemoryOutlivesItsGraphUntilFreed) {
  const CUgraph graph = captured(17);
  const CUgraphExec exec = ready(graph);
  hold();
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphDestroy(graph));
  release();
  ASSERT_OK(cuMemcpyDtoHAsync(seen_, memory_, 64, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(17u, seen_[15]);
  hold();  // work queued before the free may still use the memory
  ASSERT_OK(cuMemsetD32Async(memory_, 18, 16, stream_));
  ASSERT_OK(cuMemcpyDtoHAsync(seen_, memory_, 64, stream_));
  ASSERT_OK(cuMemFreeAsync(memory_, stream_));
  EXPECT_GE(bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 64u);
  release();
  EXPECT_EQ(18u, seen_[15]);
  // A worker may still release the last references of a complete launch; only memory that is never
  // freed is a leak.
  for (int look = 0; look < 2000 && bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) != 0; ++look)
    usleep(1000);
  EXPECT_EQ(0u, bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_EQ(0u, bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  CUdeviceptr base = 0;
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, nullptr, memory_));
}

TEST_F(GraphMemory, UpdateChangesTheFreeNode) {
  CUgraphExec takes[2] = {};
  CUgraph frees[2] = {};
  CUdeviceptr memory[2] = {};
  for (int i = 0; i < 2; ++i) {
    takes[i] = ready(captured(5));
    memory[i] = memory_;
    ASSERT_OK(cuGraphLaunch(takes[i], stream_));
    ASSERT_OK(cuGraphCreate(&frees[i], 0));
    CUgraphNode node = nullptr;
    ASSERT_OK(cuGraphAddMemFreeNode(&node, frees[i], nullptr, 0, memory_));
  }
  const CUgraphExec gives = ready(frees[0]);
  ASSERT_OK(cuGraphLaunch(gives, stream_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(gives, stream_)) << "already freed";
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate(gives, frees[1], &info));
  ASSERT_OK(cuGraphLaunch(gives, stream_));
  for (const CUdeviceptr each : memory)
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(each, stream_)) << "already freed";
  ASSERT_OK(cuStreamSynchronize(stream_));
  ASSERT_OK(cuGraphDestroy(frees[1]));
}

TEST_F(GraphMemory, AnotherGraphFreesTheMemory) {
  const CUgraphExec takes = ready(captured(5));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuMemcpyDtoHAsync(seen_, memory_, 64, stream_));
  ASSERT_OK(cuMemFreeAsync(memory_, stream_));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  const CUgraphExec gives = ready(graph);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(gives, stream_)) << "nothing is allocated";
  for (int i = 0; i < 3; ++i) {
    hold();
    ASSERT_OK(cuGraphLaunch(takes, stream_));
    ASSERT_OK(cuGraphLaunch(gives, stream_));
    release();
    EXPECT_EQ(5u, seen_[0]);
    seen_[0] = 0;
  }
}

TEST_F(GraphMemory, MemoryIsAllocatedFromTheLaunchOn) {
  const CUgraphExec exec = ready(captured(1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(memory_, stream_)) << "never launched";
  for (int i = 0; i < 3; ++i) {
    hold();
    ASSERT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream_)) << "still allocated";
    ASSERT_OK(cuMemFreeAsync(memory_, stream_));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(memory_, stream_)) << "already freed";
    ASSERT_OK(cuGraphLaunch(exec, stream_)) << "freed in stream order";
    ASSERT_OK(cuMemFreeAsync(memory_, stream_));
    release();
    EXPECT_EQ(0u, bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  }
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuMemFree(memory_));
  EXPECT_EQ(0u, bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)) << "cuMemFree waits for the launch";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory_));
}

TEST_F(GraphMemory, AutoFreeReleasesMemoryOfTheLastLaunch) {
  const CUgraphExec exec = ready(captured(1), CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  hold();
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  release();
  EXPECT_EQ(64u, bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  ASSERT_OK(cuMemFreeAsync(memory_, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(0u, bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
}

TEST_F(GraphMemory, DoubleOrForeignFreeNodesFail) {
  const CUgraph graph = captured(1, true);
  CUgraphNode node = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, graph, nullptr, 0, memory_));
  CUdeviceptr plain = 0;
  ASSERT_OK(cuMemAllocAsync(&plain, 64, stream_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, graph, nullptr, 0, plain));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(plain, stream_));
  CUgraph empty = nullptr;
  cuStreamEndCapture(stream_, &empty);  // the state of the capture is unspecified
  ASSERT_OK(cuMemFreeAsync(plain, stream_));
}

TEST_F(GraphMemory, GraphsWithMemoryNodesCannotChange) {
  const CUgraph graph = captured(1, true);
  CUgraph copy = nullptr, outer = nullptr;
  CUgraphNode node = nullptr, nodes[3] = {};
  std::size_t count = 3;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, graph));
  ASSERT_OK(cuGraphCreate(&outer, 0));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, outer, nullptr, 0, graph));
  ASSERT_OK(cuGraphGetNodes(graph, nodes, &count));
  for (CUgraphNode each : nodes) EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(each));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
            cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
  CUgraphExec second = nullptr;
  const CUgraphExec exec = ready(graph);
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph, 0));
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphExecDestroy(ready(graph)));
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph.graph = graph;
  p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  ASSERT_OK(cuGraphAddNode(&node, outer, nullptr, nullptr, 0, &p)) << "as a whole";
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, outer));
  const CUgraphExec whole = ready(outer);
  ASSERT_OK(cuGraphLaunch(whole, stream_));
  ASSERT_OK(cuGraphLaunch(whole, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphMemory, AllocationNodeUsesUnusedPoolMemory) {
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t keep = ~cuuint64_t{0};
  ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CUdeviceptr most = 0;
  ASSERT_OK(cuMemAllocAsync(&most, free / 4 * 3, stream_));
  ASSERT_OK(cuMemFreeAsync(most, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.bytesize = free / 4 * 3;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  EXPECT_OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &p));
  ASSERT_OK(cuGraphDestroy(graph));
  keep = 0;
  ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

}  // namespace
