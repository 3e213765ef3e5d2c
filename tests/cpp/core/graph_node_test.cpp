// SPDX-License-Identifier: Apache-2.0
// graph_node_test.cpp: nodes are read and changed, in definitions and in graphs made from them.
#include "cucore/graph_node.hpp"

#include <vector>

#include "cucore/device.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(std::is_trivially_copyable_v<GraphNodeRef>);

class GraphNodeTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    buffer_ = Device{0}.allocate(kCount * sizeof(int), stream_);
    other_ = Device{0}.allocate(kCount * sizeof(int), stream_);
    buffer_.fill(0, stream_);
    other_.fill(0, stream_);
    graph_ = GraphDefinition::create();
    kernel_.emplace(ObjectCode::from_ptx(testing::kAddPtx).get_kernel("add_value"));
  }
  int first_of(const Buffer& buffer) {
    std::vector<int> back(kCount);
    buffer.copy_to(std::span{back}, stream_);
    stream_.sync();
    return back[0];
  }
  static constexpr unsigned kCount = 4;
  const LaunchConfig config_{.grid = {1}, .block = {kCount}};
  Stream stream_;
  Buffer buffer_;
  Buffer other_;
  GraphDefinition graph_;
  std::optional<Kernel> kernel_;
};

TEST_F(GraphNodeTest, ANodeKnowsItsTypeAndNeighbours) {
  const GraphNodeRef first{graph_.add_empty({})};
  const CUgraphNode before[] = {first.handle()};
  const GraphNodeRef second{graph_.add_empty(before)};
  EXPECT_EQ(first.type(), CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_EQ(second.pred(), std::vector{first.handle()});
  EXPECT_EQ(first.succ(), std::vector{second.handle()});
  EXPECT_TRUE(first.pred().empty());
}

TEST_F(GraphNodeTest, AKernelNodeIsChangedInTheDefinitionAndInTheGraph) {
  const GraphNodeRef node{graph_.add_launch({}, config_, *kernel_, buffer_, 5, kCount)};
  EXPECT_EQ(node.kernel().block, (Dim3{kCount, 1, 1}));
  EXPECT_EQ(node.kernel().kernel, kernel_->handle());
  const Graph graph = graph_.instantiate();
  CUdeviceptr ptr = buffer_.handle();
  int value = 7;
  unsigned n = kCount;
  void* arguments[] = {&ptr, &value, &n};
  ExecutableNodeRef{graph.handle(), node}.set_kernel(config_, *kernel_, arguments);
  graph.launch(stream_);
  EXPECT_EQ(first_of(buffer_), 7);
  node.set_kernel({.grid = {2}, .block = {2}}, *kernel_, arguments);
  EXPECT_EQ(node.kernel().grid.x, 2u);
}

TEST_F(GraphNodeTest, InstantiatedKernelNodeKeepsItsLaunchAttributes) {
  CUdeviceptr ptr = buffer_.handle();
  int value = 7;
  unsigned n = kCount;
  void* arguments[] = {&ptr, &value, &n};
  const GraphNodeRef plain{graph_.add_launch({}, config_, *kernel_, buffer_, 5, kCount)};
  LaunchConfig cooperative = config_;
  cooperative.is_cooperative = true;
  const CUgraphNode before[] = {plain.handle()};
  const GraphNodeRef grid{graph_.add_launch(before, cooperative, *kernel_, other_, 5, kCount)};
  const Graph graph = graph_.instantiate();
  const ExecutableNodeRef in_graph{graph.handle(), plain};
  EXPECT_THROW(in_graph.set_kernel(cooperative, *kernel_, arguments), std::invalid_argument);
  LaunchConfig clusters = config_;
  clusters.cluster = Dim3{2, 1, 1};
  EXPECT_THROW(in_graph.set_kernel(clusters, *kernel_, arguments), std::invalid_argument);
  ExecutableNodeRef{graph.handle(), grid}.set_kernel(cooperative, *kernel_, arguments);
  graph.launch(stream_);
  EXPECT_EQ(first_of(buffer_), 12);  // 5 of the first node, 7 of the second
}

TEST_F(GraphNodeTest, CopiesAndFillsAreChanged) {
  const GraphNodeRef fill{graph_.add_memset({}, {buffer_.handle(), 0, 1, 4, kCount, 1})};
  const CUgraphNode before[] = {fill.handle()};
  const GraphNodeRef copy{
      graph_.add_memcpy(before, other_.handle(), buffer_.handle(), buffer_.size())};
  EXPECT_EQ(fill.memset().value, 1u);
  EXPECT_EQ(destination_of(copy.memcpy()).ptr, other_.handle());
  fill.set_memset({buffer_.handle(), 0, 2, 4, kCount, 1});
  const Graph graph = graph_.instantiate();
  graph.launch(stream_);
  EXPECT_EQ(first_of(other_), 2);
  const ExecutableNodeRef made{graph.handle(), fill};
  made.set_memset({buffer_.handle(), 0, 3, 4, kCount, 1});
  ExecutableNodeRef{graph.handle(), copy}.set_memcpy(CopyEnd{other_.handle()},
                                                     CopyEnd{buffer_.handle()}, CopyExtent{4});
  graph.launch(stream_);
  EXPECT_EQ(first_of(other_), 3);
  EXPECT_TRUE(made.is_enabled());
  made.set_enabled(false);
  EXPECT_FALSE(made.is_enabled());
}

TEST_F(GraphNodeTest, AnEventNodeTakesAnotherEvent) {
  const Event first = Device{0}.create_event();
  const Event second = Device{0}.create_event();
  const GraphNodeRef record{graph_.add_event_record({}, first)};
  EXPECT_EQ(record.event(), first.handle());
  record.set_event(second);
  EXPECT_EQ(record.event(), second.handle());
}

TEST_F(GraphNodeTest, ANodeIsNotGivenTheGraphItIsPartOf) {
  GraphDefinition child = GraphDefinition::create();
  child.add_empty({});
  const GraphNodeRef node{graph_.add_child({}, child)};
  EXPECT_NE(node.child_graph(), child.handle());
  EXPECT_THROW(node.set_child_graph(graph_, graph_), CUDAError);
}

TEST_F(GraphNodeTest, AHostFunctionIsChanged) {
  static int calls = 0;
  const auto count = [](void* by) { calls += static_cast<int>(reinterpret_cast<std::size_t>(by)); };
  const GraphNodeRef node{graph_.add_host({}, count, reinterpret_cast<void*>(1))};
  node.set_host({count, reinterpret_cast<void*>(10)});
  EXPECT_EQ(node.host().data, reinterpret_cast<void*>(10));
  const Graph graph = graph_.instantiate();
  graph.launch(stream_);
  stream_.sync();
  EXPECT_EQ(calls, 10);
}

}  // namespace
}  // namespace cucore
