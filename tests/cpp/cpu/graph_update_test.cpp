// SPDX-License-Identifier: Apache-2.0
// Updates of executable graphs: nodes of every kind, and the reasons of failures.
#include <atomic>
#include <functional>

#include "graph_support.hpp"

namespace {

void store_data(void* data) { *static_cast<std::atomic<unsigned>*>(data) += 1; }

class GraphUpdates : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    for (CUevent& event : events_) ASSERT_OK(cuEventCreate(&event, 0));
    word_ = words(32);
    kernel("store");
  }
  struct Chain {
    CUgraph graph = nullptr;
    CUgraphNode last = nullptr;
  };
  Chain chain() {
    Chain c;
    EXPECT_OK(cuGraphCreate(&c.graph, 0));
    return c;
  }
  void add(Chain& chain, CUgraphNodeParams& params) {
    CUgraphNode node = nullptr;
    ASSERT_OK(cuGraphAddNode(&node, chain.graph, chain.last ? &chain.last : nullptr, nullptr,
                             chain.last ? 1 : 0, &params));
    chain.last = node;
  }
  void add_kernel(Chain& chain, unsigned* to, unsigned value) {
    void* args[] = {&to, &value};
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.func = kernel("store");
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = args;
    add(chain, p);
  }
  void add_fill(Chain& chain, unsigned* to, unsigned value) {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEMSET;
    p.memset.dst = address(to);
    p.memset.value = value;
    p.memset.elementSize = 4;
    p.memset.width = p.memset.height = 1;
    p.memset.ctx = context_;
    add(chain, p);
  }
  void add_copy(Chain& chain, unsigned* to, const unsigned* from) {
    CUgraphNodeParams p = copy_node(to, from);
    add(chain, p);
  }
  CUgraph add_condition(Chain& chain, CUgraphConditionalNodeType type, unsigned first) {
    std::vector<CUgraphNode> after;
    if (chain.last) after.push_back(chain.last);
    const Condition made = GraphTest::add_condition(chain.graph, type, first, after);
    chain.last = made.node;
    return made.body;
  }
  /// Adds one node of each kind that can be updated; `i` selects the parameters.
  CUgraph every_kind(unsigned i) {
    Chain all = chain();
    add_kernel(all, &word_[0], 10 + i);
    add_fill(all, &word_[1], 20 + i);
    word_[16 + i] = 30 + i;
    add_copy(all, &word_[2], &word_[16 + i]);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_HOST;
    p.host = {store_data, &called_[i]};
    add(all, p);
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_EMPTY;
    add(all, p);
    Chain child = chain();
    add_kernel(child, &word_[3], 40 + i);
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = child.graph;
    add(all, p);
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    p.eventRecord.event = events_[i];
    add(all, p);
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    p.eventWait.event = events_[i];
    add(all, p);
    CUstreamBatchMemOpParams op{};
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = address(&word_[4]);
    op.writeValue.value = 50 + i;
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    p.memOp = {context_, 1, &op, 0};
    add(all, p);
    Chain body;
    body.graph = add_condition(all, CU_GRAPH_COND_TYPE_IF, i);
    add_kernel(body, &word_[5], 60 + i);
    return all.graph;
  }
  CUgraphExecUpdateResultInfo update(CUgraphExec exec, CUgraph graph, CUresult wanted) {
    CUgraphExecUpdateResultInfo info{};
    EXPECT_EQ(wanted, cuGraphExecUpdate(exec, graph, &info));
    return info;
  }

  CUevent events_[2] = {};
  unsigned* word_ = nullptr;
  std::atomic<unsigned> called_[2] = {};
};

TEST_F(GraphUpdates, NodesOfEveryKindAreUpdated) {
  const CUgraphExec exec = instantiate(every_kind(0));
  run(exec);
  EXPECT_EQ((std::vector<unsigned>{10, 20, 30, 40, 50, 0}), std::vector(word_, word_ + 6));
  EXPECT_EQ(1u, called_[0].load());
  const CUgraph other = every_kind(1);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_SUCCESS, update(exec, other, CUDA_SUCCESS).result);
  ASSERT_OK(cuGraphDestroy(other));
  run(exec);
  EXPECT_EQ((std::vector<unsigned>{11, 21, 31, 41, 51, 61}), std::vector(word_, word_ + 6));
  EXPECT_EQ(1u, called_[0].load());
  EXPECT_EQ(1u, called_[1].load());
  float between = -1;  // both were recorded, one per run
  ASSERT_OK(cuEventElapsedTime(&between, events_[0], events_[1]));
  EXPECT_GE(between, 0);
}

TEST_F(GraphUpdates, UpdateReportsTheNodeOfAnotherKind) {
  Chain fills = chain(), copies = chain();
  add_kernel(fills, &word_[0], 1);
  add_fill(fills, &word_[1], 1);
  add_kernel(copies, &word_[0], 2);
  add_copy(copies, &word_[1], &word_[2]);
  const CUgraphExec exec = instantiate(fills.graph);
  const auto info = update(exec, copies.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, info.result);
  EXPECT_EQ(copies.last, info.errorNode);
  run(exec);
  EXPECT_EQ(1u, word_[0]);  // unchanged
}

TEST_F(GraphUpdates, ChangedConditionTypeFails) {
  Chain first = chain(), second = chain();
  Chain body;
  body.graph = add_condition(first, CU_GRAPH_COND_TYPE_IF, 1);
  add_kernel(body, &word_[0], 1);
  body = {};
  body.graph = add_condition(second, CU_GRAPH_COND_TYPE_WHILE, 0);
  add_kernel(body, &word_[0], 2);
  const auto info =
      update(instantiate(first.graph), second.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, info.result);
  EXPECT_EQ(second.last, info.errorNode);
}

TEST_F(GraphUpdates, UpdateOfGraphMemoryFails) {
  const auto with_memory = [&] {
    Chain c = chain();
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.alloc.bytesize = 64;
    add(c, p);
    const CUdeviceptr made = p.alloc.dptr;
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    p.free.dptr = made;
    add(c, p);
    return c.graph;
  };
  const CUgraphExec exec = instantiate(with_memory());
  const auto info = update(exec, with_memory(), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, info.result);
  run(exec);
}

TEST_F(GraphUpdates, UpdateWithOtherChildStructureFails) {
  const auto with_child = [&](unsigned nodes) {
    Chain inner = chain(), outer = chain();
    for (unsigned i = 0; i < nodes; ++i) add_kernel(inner, &word_[0], i);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = inner.graph;
    add(outer, p);
    return outer.graph;
  };
  const auto info =
      update(instantiate(with_child(1)), with_child(2), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
}

}  // namespace
