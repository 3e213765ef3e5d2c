// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: conditions, the contents of bodies, and errors.
#include <functional>
#include <string>

#include "graph_support.hpp"

namespace {

class GraphConditions : public LoggedGraphTest {};

TEST_F(GraphConditions, WhileNodeLoopsUntilDeviceCodeClearsTheCondition) {
  unsigned* left = words(1);
  const auto [handle, loop, body] = add_condition(graph_, CU_GRAPH_COND_TYPE_WHILE, 1);
  kernel_node(body, {append_node(body, {}, 4)}, "countdown", left, handle);
  append_node(graph_, {loop}, 5);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 2; ++i) {
    *left = 3;
    EXPECT_EQ((List{4, 4, 4, 5}), run(exec));
  }
}

/// A nested loop whose condition and counter are reset in each iteration of the outer loop.
TEST_F(GraphConditions, NestedWhileNodesLoop) {
  unsigned* left = words(2);
  const Condition outer = add_condition(graph_, CU_GRAPH_COND_TYPE_WHILE, 1);
  const CUgraph turn = outer.body;
  const Condition inner = add_condition(turn, CU_GRAPH_COND_TYPE_WHILE, 0);
  const CUgraphNode again = kernel_node(turn, {}, "store", &left[1], 2u);
  const CUgraphNode allow = kernel_node(turn, {again}, "store", inner.handle, 1u);
  ASSERT_OK(cuGraphAddDependencies(turn, &allow, &inner.node, nullptr, 1));
  kernel_node(inner.body, {append_node(inner.body, {}, 8)}, "countdown", &left[1], inner.handle);
  kernel_node(turn, {append_node(turn, {inner.node}, 9)}, "countdown", &left[0], outer.handle);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 2; ++i) {
    left[0] = 3;
    EXPECT_EQ((List{8, 8, 9, 8, 8, 9, 8, 8, 9}), run(exec));
  }
}

TEST_F(GraphConditions, ConditionsAreReleasedWithTheLastGraph) {
  const auto node_with = [&](CUgraph graph, CUgraphConditionalHandle handle) {
    CUgraphNodeParams params = condition_node(handle, CU_GRAPH_COND_TYPE_IF);
    CUgraphNode node = nullptr;
    return cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params);
  };
  CUgraph first = nullptr, copy = nullptr;
  CUgraphConditionalHandle handle = 0, later = 0;
  ASSERT_OK(cuGraphCreate(&first, 0));
  ASSERT_OK(cuGraphConditionalHandleCreate(&handle, first, context_, 0, 0));
  ASSERT_OK(cuGraphClone(&copy, first));
  ASSERT_OK(cuGraphDestroy(first));
  EXPECT_OK(node_with(copy, handle)) << "the copy's kernels may set it";
  ASSERT_OK(cuGraphDestroy(copy));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, node_with(graph_, handle));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, node_with(graph_, handle + 1)) << "never made";
  ASSERT_OK(cuGraphConditionalHandleCreate(&later, graph_, context_, 0, 0));
  EXPECT_EQ(handle, later) << "its place is used again";
}

TEST_F(GraphConditions, InvalidConditionalHandlesFail) {
  CUgraphConditionalHandle handle = 0;
  ASSERT_OK(cuGraphConditionalHandleCreate(&handle, graph_, context_, 1, 0));
  const CUgraphNodeParams good = condition_node(handle, CU_GRAPH_COND_TYPE_IF);
  const auto refused = [&](const std::function<void(CUDA_CONDITIONAL_NODE_PARAMS&)>& spoil) {
    CUgraphNodeParams params = good;
    CUgraphNode node = nullptr;
    spoil(params.conditional);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params));
  };
  refused([](auto& p) { p.handle = 0; });
  refused([](auto& p) { p.handle = 12345; });  // looked up, never dereferenced
  refused([](auto& p) { p.handle += 8; });
  refused([](auto& p) { p.type = static_cast<CUgraphConditionalNodeType>(9999); });
  refused([](auto& p) { p.size = 0; });
  refused([](auto& p) { p.size = 3; });  // if and else
  refused([](auto& p) { p.type = CU_GRAPH_COND_TYPE_WHILE, p.size = 2; });
  refused([](auto& p) { p.type = CU_GRAPH_COND_TYPE_SWITCH, p.size = ~0u; });
  std::size_t count = 9;
  ASSERT_OK(cuGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(0u, count);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuGraphConditionalHandleCreate(&handle, graph_, context_, 1, 2));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuGraphConditionalHandleCreate(nullptr, graph_, context_, 1, 0));
}

class GraphBodies : public GraphConditions {
 protected:
  CUgraphNode add(CUgraph graph, CUgraphNodeParams p) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &p));
    return node;
  }
  CUgraphNodeParams host() const {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_HOST;
    p.host = {[](void*) {}, nullptr};
    return p;
  }
  CUgraphNodeParams with_event(CUgraphNodeType type) const {
    CUgraphNodeParams p{};
    p.type = type;
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, 0));
    (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? p.eventWait.event : p.eventRecord.event) = event;
    return p;
  }
  CUgraphNodeParams alloc() const {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.alloc.bytesize = 64;
    return p;
  }
  CUgraphNodeParams write(CUstreamBatchMemOpParams& op) const {
    op.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address(log_), {1}, 0, 0};
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    p.memOp = {context_, 1, &op, 0};
    return p;
  }
  /// Expects that instantiation fails and that the log has the reason.
  void expect_refused(
      CUgraphNode node, const std::string& reason,
      CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED) {
    CUlogIterator before = 0;
    ASSERT_OK(cuLogsCurrent(&before, 0));
    CUgraphExec exec = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph_, &params));
    EXPECT_EQ(result, params.result_out);
    EXPECT_EQ(node, params.hErrNode_out);
    char text[512] = "";
    std::size_t size = sizeof text;
    ASSERT_OK(cuLogsDumpToMemory(&before, text, &size, 0));
    EXPECT_NE(std::string::npos, std::string{text}.find(reason)) << text;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph_, 0));
  }
};

TEST_F(GraphBodies, KernelsCopiesFillsAndEmptyNodesAreAllowed) {
  const auto [handle, condition, body] = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EMPTY;
  add(body, p);
  p.type = CU_GRAPH_NODE_TYPE_MEMSET;
  p.memset = {address(log_ + 40), 0, 6, 4, 1, 1, context_};
  const CUgraphNode fill = add(body, p);
  const CUgraphNode moves = add(body, copy_node(log_ + 41, log_ + 40));
  ASSERT_OK(cuGraphAddDependencies(body, &fill, &moves, nullptr, 1));
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  append_node(child, {}, 7);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, body, nullptr, 0, child));
  append_node(add_condition(body, CU_GRAPH_COND_TYPE_IF, 1, {node}).body, {}, 8);
  EXPECT_EQ((List{7, 8}), run(instantiate()));
  EXPECT_EQ(6u, log_[41]);
}

// As on an H200, a body accepts any node, and instantiation fails.
TEST_F(GraphBodies, OtherNodeKindsFailInstantiation) {
  CUstreamBatchMemOpParams op{};
  const std::pair<CUgraphNodeParams, const char*> kinds[] = {
      {host(), "HOST"},
      {with_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD), "EVENT_RECORD"},
      {with_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT), "EVENT_WAIT"},
      {alloc(), "MEM_ALLOC"},
      {write(op), "BATCH_MEM_OP"},
  };
  for (const auto& [params, kind] : kinds) {
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    const CUgraph body = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 0).body;
    append_node(body, {}, 1);
    expect_refused(add(body, params), std::string{"holds a "} + kind + " node");
    ASSERT_OK(cuGraphDestroy(graph_));
  }
}

TEST_F(GraphBodies, NestedOtherNodeKindsFailInstantiation) {
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  const CUgraphNode inside = add(child, host());
  const CUgraph body = add_condition(graph_, CU_GRAPH_COND_TYPE_WHILE, 0).body;
  CUgraphNode node = nullptr, twin = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, body, nullptr, 0, child));
  CUgraph own = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(node, &own));
  ASSERT_OK(cuGraphNodeFindInClone(&twin, inside, own));
  expect_refused(twin, "holds a HOST node");
  ASSERT_OK(cuGraphDestroyNode(node));
  const CUgraph deeper = add_condition(body, CU_GRAPH_COND_TYPE_IF, 0).body;
  expect_refused(add(deeper, host()), "holds a HOST node");
}

TEST_F(GraphBodies, CopiesOfPageableMemoryFailInstantiation) {
  unsigned word = 0;
  for (const bool to : {true, false}) {
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    const CUgraph body = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 1).body;
    const CUgraphNode node = add(body, copy_node(to ? &word : log_, to ? log_ : &word));
    expect_refused(node, "pageable host memory",
                   CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED);
    ASSERT_OK(cuGraphDestroy(graph_));
  }
}

TEST_F(GraphConditions, ConditionWithoutExactlyOneNodeFails) {
  CUgraphConditionalHandle handle = 0;
  CUgraphNode node = nullptr, other = nullptr;
  ASSERT_OK(cuGraphConditionalHandleCreate(&handle, graph_, context_, 0, 0));
  append_node(graph_, {}, 1);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph_, &params));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, params.result_out);
  EXPECT_EQ(nullptr, params.hErrNode_out);
  CUgraph elsewhere = nullptr;
  ASSERT_OK(cuGraphCreate(&elsewhere, 0));
  ASSERT_OK(cuGraphAddEmptyNode(&other, elsewhere, nullptr, 0));
  CUgraphNodeParams p = condition_node(handle, CU_GRAPH_COND_TYPE_IF);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph_, &other, nullptr, 1, &p));
  ASSERT_OK(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &p)) << "that one was never added";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&other, graph_, nullptr, nullptr, 0, &p));
  EXPECT_EQ((List{1}), run(instantiate()));
}

TEST_F(GraphBodies, OuterGraphAcceptsAllNodeKinds) {
  const Condition condition = add_condition(graph_, CU_GRAPH_COND_TYPE_IF, 1);
  append_node(condition.body, {}, 3);
  add(graph_, host());
  EXPECT_EQ((List{3}), run(instantiate()));
}

}  // namespace
