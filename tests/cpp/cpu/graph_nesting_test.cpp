// SPDX-License-Identifier: Apache-2.0
// Nested graphs: ownership, failed additions, and the limit of depth.
#include "graph_support.hpp"

namespace {

class GraphNesting : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    ASSERT_OK(cuGraphCreate(&child_, 0));
    ASSERT_OK(cuGraphCreate(&other_, 0));
    ASSERT_OK(cuGraphAddEmptyNode(&stranger_, other_, nullptr, 0));
  }
  static CUresult add_child(CUgraph graph, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                            const CUgraphNode* after = nullptr) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = child;
    params.graph.ownership = ownership;
    CUgraphNode node = nullptr;
    return cuGraphAddNode(&node, graph, after, nullptr, after != nullptr, &params);
  }
  static constexpr auto kMove = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  static constexpr auto kClone = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;

  /// Adds a conditional node to `graph`; returns its body.
  CUresult add_condition(CUgraph graph, CUgraph* body, const CUgraphNode* after = nullptr) {
    CUgraphConditionalHandle handle = 0;
    EXPECT_OK(cuGraphConditionalHandleCreate(&handle, graph, context_, 0, 0));
    CUgraphNodeParams params = condition_node(handle, CU_GRAPH_COND_TYPE_IF);
    CUgraphNode node = nullptr;
    const CUresult result = cuGraphAddNode(&node, graph, after, nullptr, after != nullptr, &params);
    EXPECT_EQ(result == CUDA_SUCCESS, params.conditional.phGraph_out != nullptr);
    if (result == CUDA_SUCCESS) *body = params.conditional.phGraph_out[0];
    return result;
  }
  /// A user object of the child graph whose destruction is observed.
  static void retain_counted(CUgraph graph, int* ends) {
    CUuserObject object = nullptr;
    ASSERT_OK(cuUserObjectCreate(
        &object, ends, [](void* count) { ++*static_cast<int*>(count); }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ASSERT_OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  }

  CUgraph child_ = nullptr, other_ = nullptr;
  CUgraphNode stranger_ = nullptr;  // a node of the other graph: an invalid dependency
};

TEST_F(GraphNesting, FailedChildGraphNodeLeavesNoCopy) {
  int ends = 0;
  retain_counted(child_, &ends);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(graph_, child_, kClone, &stranger_));
  ASSERT_OK(cuGraphDestroy(child_));
  EXPECT_EQ(1, ends);
}

TEST_F(GraphNesting, FailedConditionalNodeLeavesNoBody) {
  CUgraph body = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_condition(graph_, &body, &stranger_));
  ASSERT_OK(add_condition(graph_, &body));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(body));  // owned by its node
  size_t count = 0;
  ASSERT_OK(cuGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(1u, count);
}

TEST_F(GraphNesting, MovedChildGraphBelongsToItsNode) {
  int ends = 0;
  retain_counted(child_, &ends);
  ASSERT_OK(add_child(graph_, child_, kMove));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child_));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, add_child(other_, child_, kMove));  // it has been moved
  EXPECT_EQ(0, ends);
  ASSERT_OK(cuGraphDestroy(graph_));
  EXPECT_EQ(1, ends);
}

TEST_F(GraphNesting, FailedMoveLeavesTheChildGraphToTheProgram) {
  int ends = 0;
  retain_counted(child_, &ends);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(graph_, child_, kMove, &stranger_));
  EXPECT_EQ(0, ends);
  ASSERT_OK(add_child(other_, child_, kClone, &stranger_));
  ASSERT_OK(cuGraphDestroy(child_));
  ASSERT_OK(cuGraphDestroy(other_));
  EXPECT_EQ(1, ends);
}

TEST_F(GraphNesting, MovingAGraphIntoItselfFails) {
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(graph_, graph_, kMove));
  ASSERT_OK(add_child(graph_, child_, kMove));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(child_, graph_, kMove));
  ASSERT_OK(add_child(child_, graph_, kClone));  // a copy is a different graph
  ASSERT_OK(cuGraphDestroy(graph_));
}

/// As documented: such a graph cannot be copied, nor added as a child graph by copy or move; the
/// same holds for a graph with such a child.
TEST_F(GraphNesting, GraphsWithConditionsCannotBeCopiedOrNested) {
  CUgraph body = nullptr, copy = nullptr;
  ASSERT_OK(add_condition(child_, &body));
  const auto refused = [&](CUgraph graph) {
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, graph));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, add_child(graph_, graph, kClone));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, add_child(graph_, graph, kMove));
  };
  refused(child_);
  CUgraph moved = nullptr;
  ASSERT_OK(cuGraphCreate(&moved, 0));
  ASSERT_OK(add_child(other_, moved, kMove));
  ASSERT_OK(add_condition(moved, &body));
  refused(other_);
  size_t count = 9;
  ASSERT_OK(cuGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(0u, count);
  ASSERT_OK(cuGraphDestroy(child_));
}

TEST_F(GraphNesting, NestingDepthIsLimited) {
  CUgraph inner = graph_;
  CUresult result = CUDA_SUCCESS;
  unsigned depth = 0;
  for (; depth < 100000; ++depth) {
    CUgraph next = nullptr;
    ASSERT_OK(cuGraphCreate(&next, 0));
    result = add_child(inner, next, kMove);
    if (result != CUDA_SUCCESS) break;
    inner = next;
  }
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, result);
  EXPECT_GT(depth, 100u);
  CUgraph copy = nullptr, body = nullptr;
  ASSERT_OK(cuGraphClone(&copy, graph_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(child_, copy, kMove));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_child(child_, copy, kClone));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, copy, 0));
  ASSERT_OK(cuGraphLaunch(exec, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphDestroy(copy));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, add_condition(inner, &body));
  ASSERT_OK(cuGraphDestroy(graph_));
}

}  // namespace
