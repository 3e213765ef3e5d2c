// SPDX-License-Identifier: Apache-2.0
// Fixtures of graph tests: a graph and a stream per test, kernel nodes, conditions.
#pragma once

#include <vector>

#include "support.hpp"

class GraphTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }
  /// One thread of a kernel.
  CUDA_KERNEL_NODE_PARAMS kernel_params(const char* name, void** args) {
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = kernel(name);
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = args;
    return p;
  }
  template <class... Args>
  CUgraphNode kernel_node(CUgraph graph, std::vector<CUgraphNode> after, const char* name,
                          Args... values) {
    void* args[] = {&values..., nullptr};
    const auto p = kernel_params(name, args);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &p));
    return node;
  }
  /// The description of a conditional node.
  CUgraphNodeParams condition_node(CUgraphConditionalHandle handle,
                                   CUgraphConditionalNodeType type) const {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = 1;
    p.conditional.ctx = context_;
    return p;
  }
  struct Condition {
    CUgraphConditionalHandle handle = 0;
    CUgraphNode node = nullptr;
    CUgraph body = nullptr;
  };
  /// Adds a conditional node with a condition that is `value` at each launch.
  Condition add_condition(CUgraph graph, CUgraphConditionalNodeType type, unsigned value,
                          std::vector<CUgraphNode> after = {}) {
    Condition made;
    EXPECT_OK(cuGraphConditionalHandleCreate(&made.handle, graph, context_, value,
                                             CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams p = condition_node(made.handle, type);
    EXPECT_OK(cuGraphAddNode(&made.node, graph, after.data(), nullptr, after.size(), &p));
    made.body = p.conditional.phGraph_out[0];
    return made;
  }
  /// The description of a copy of one word in host memory.
  CUgraphNodeParams copy_node(unsigned* to, const unsigned* from) const {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    CUDA_MEMCPY3D& c = p.memcpy.copyParams;
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = from, c.dstHost = to;
    c.WidthInBytes = 4;
    c.Height = c.Depth = 1;
    p.memcpy.copyCtx = context_;
    return p;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  CUgraphExec instantiate() { return instantiate(graph_); }
  void run(CUgraphExec exec) {
    ASSERT_OK(cuGraphLaunch(exec, stream_));
    ASSERT_OK(cuStreamSynchronize(stream_));
  }

  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
};

/// With kernels that log their order.
class LoggedGraphTest : public GraphTest {
 protected:
  using List = std::vector<unsigned>;

  void SetUp() override {
    GraphTest::SetUp();
    log_ = words(64);
  }
  CUgraphNode append_node(CUgraph graph, std::vector<CUgraphNode> after, unsigned value) {
    return kernel_node(graph, std::move(after), "append", log_, value);
  }
  List run(CUgraphExec exec) {
    log_[0] = 0;
    GraphTest::run(exec);
    return logged();
  }
  List logged() const { return {log_ + 1, log_ + 1 + log_[0]}; }

  unsigned* log_ = nullptr;
};
