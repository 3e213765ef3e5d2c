// SPDX-License-Identifier: Apache-2.0
// graph_test.cpp: work described once and launched many times.
#include "cucore/graph.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include "cucore/graph_node.hpp"
#include "support.hpp"

namespace cucore {
namespace {

class GraphTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    code_ = ObjectCode::from_ptx(testing::kAddPtx);
    buffer_ = Device{0}.allocate(4, stream_);
    buffer_.fill(0, stream_);
    stream_.sync();
  }
  int value() {
    int result = 0;
    buffer_.copy_to(std::span{&result, 1}, stream_);
    stream_.sync();
    return result;
  }
  Stream stream_;
  std::optional<ObjectCode> code_;
  Buffer buffer_;
};

TEST_F(GraphTest, CapturedWorkRunsAtEachLaunch) {
  const Kernel kernel = code_->get_kernel("add_value");
  const GraphDefinition definition = capture(stream_, [&] {
    launch(stream_, LaunchConfig{.grid = {1}, .block = {32}}, kernel, buffer_, 3, 1u);
    launch(stream_, LaunchConfig{.grid = {1}, .block = {32}}, kernel, buffer_, 4, 1u);
  });
  EXPECT_EQ(definition.nodes().size(), 2u);
  EXPECT_EQ(definition.edges().size(), 1u);
  EXPECT_EQ(value(), 0);
  const Graph graph = definition.instantiate();
  for (int i = 0; i < 3; ++i) graph.launch(stream_);
  EXPECT_EQ(value(), 21);
}

TEST_F(GraphTest, AThrowWhileCapturingLeavesTheStreamUsable) {
  EXPECT_THROW(capture(stream_, [] { throw std::runtime_error("stop"); }), std::runtime_error);
  EXPECT_FALSE(stream_.is_capturing());
  EXPECT_NO_THROW(stream_.sync());
}

TEST_F(GraphTest, NodesAreAddedByHand) {
  GraphDefinition definition = GraphDefinition::create();
  const CUgraphNode fill = definition.add_memset(
      {}, {.dst = buffer_.handle(), .value = 1, .element_size = 4, .width = 1});
  const Kernel kernel = code_->get_kernel("add_value");
  CUdeviceptr ptr = buffer_.handle();
  int add = 9;
  unsigned n = 1;
  void* arguments[] = {&ptr, &add, &n};
  const CUgraphNode after[] = {fill};
  definition.add_kernel(after, LaunchConfig{.grid = {1}, .block = {1}}, kernel, arguments);
  EXPECT_FALSE(definition.leaves_allocations());
  const Graph graph = definition.instantiate();
  graph.launch(stream_);
  graph.launch(stream_);
  EXPECT_EQ(value(), 10);
}

TEST_F(GraphTest, LaunchesAreAddedWithCheckedArgumentsAndKeepTheirCode) {
  GraphDefinition definition = GraphDefinition::create();
  const LaunchConfig one{.grid = {1}, .block = {1}};
  EXPECT_THROW(definition.add_launch({}, one, code_->get_kernel("add_value"), buffer_),
               std::invalid_argument);
  definition.add_launch({}, one, code_->get_kernel("add_value"), buffer_, 5, 1u);
  code_.reset();  // the graph holds what it needs
  const Graph graph = definition.instantiate();
  definition = {};
  graph.launch(stream_);
  EXPECT_EQ(value(), 5);
}

TEST_F(GraphTest, KeepsAnOwnerAsLongAsAnyGraphMadeFromIt) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  GraphDefinition definition = GraphDefinition::create();
  definition.add_empty({});
  definition.keep(std::move(owner));
  Graph graph = definition.instantiate();
  definition = {};
  graph.launch(stream_);
  stream_.sync();
  EXPECT_FALSE(watched.expired());
  graph.close();
  for (int i = 0; i < 1000 && !watched.expired(); ++i) {  // the driver may say so on another thread
    release_deferred_owners();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_TRUE(watched.expired());
}

TEST_F(GraphTest, ForgetsAnOwnerItIsToldToForget) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  GraphDefinition definition = GraphDefinition::create();
  const CUuserObject kept = definition.keep(std::move(owner));
  EXPECT_FALSE(watched.expired());
  definition.release(kept);
  EXPECT_TRUE(watched.expired());
}

/// The driver may let go on another thread.
bool is_released(const std::weak_ptr<int>& watched) {
  for (int i = 0; i < 1000 && !watched.expired(); ++i) {
    release_deferred_owners();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return watched.expired();
}

/// Adds a node that uses something.
std::weak_ptr<int> add_user(GraphDefinition& graph) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  graph.use(graph.add_empty({}), std::move(owner));
  return watched;
}

TEST_F(GraphTest, ARemovedNodeLetsGoOfWhatItUsed) {
  GraphDefinition graph = GraphDefinition::create();
  const auto watched = add_user(graph);
  EXPECT_FALSE(watched.expired());
  graph.remove(graph.nodes().front());
  EXPECT_TRUE(is_released(watched));
}

TEST_F(GraphTest, ANodeOfANestedCopyLetsGoOfWhatItUsed) {
  GraphDefinition outer = GraphDefinition::create();
  std::weak_ptr<int> watched;
  {
    GraphDefinition inner = GraphDefinition::create();
    GraphDefinition middle = GraphDefinition::create();
    watched = add_user(inner);
    middle.add_child({}, inner);
    outer.add_child({}, middle);
  }
  const auto child_of = [](const GraphDefinition& graph) {
    const CUgraphNode node = graph.nodes().front();
    return graph.inside(node, GraphNodeRef{node}.child_graph());
  };
  GraphDefinition innermost = child_of(child_of(outer));
  release_deferred_owners();
  EXPECT_FALSE(watched.expired());
  innermost.remove(innermost.nodes().front());
  EXPECT_TRUE(is_released(watched));
  EXPECT_TRUE(innermost.is_valid());
}

TEST_F(GraphTest, GraphsInsideARemovedNodeEnd) {
  GraphDefinition outer = GraphDefinition::create();
  std::vector<CUgraph> bodies;
  const CUgraphNode node =
      outer.add_conditional({}, outer.create_condition(1, true), CU_GRAPH_COND_TYPE_IF, 1, bodies);
  GraphDefinition body = outer.inside(node, bodies.front());
  const auto watched = add_user(body);
  const auto generation = body.generation();
  outer.remove(node);
  EXPECT_FALSE(body.is_valid());
  EXPECT_NE(body.generation(), generation);
  EXPECT_TRUE(is_released(watched));
  EXPECT_TRUE(outer.is_valid());
}

TEST_F(GraphTest, AnotherChildGraphLetsGoOfWhatTheOldOneUsed) {
  GraphDefinition outer = GraphDefinition::create();
  GraphDefinition first = GraphDefinition::create();
  GraphDefinition second = GraphDefinition::create();
  const auto old = add_user(first);
  const auto now = add_user(second);
  const CUgraphNode node = outer.add_child({}, first);
  const GraphDefinition child = outer.inside(node, GraphNodeRef{node}.child_graph());
  first = {};
  outer.set_child(node, second);
  second = {};
  EXPECT_TRUE(is_released(old));
  EXPECT_FALSE(now.expired());
  EXPECT_EQ(child.handle(), GraphNodeRef{node}.child_graph());
  outer.remove(node);
  EXPECT_TRUE(is_released(now));
  EXPECT_FALSE(child.is_valid());
}

TEST_F(GraphTest, EventsLiveAsLongAsTheNodesThatRecordThem) {
  GraphDefinition definition = GraphDefinition::create();
  Event event = stream_.record();
  const EventRef seen = event;
  definition.add_event_record({}, event);
  event.close();
  const Graph graph = definition.instantiate();
  graph.launch(stream_);
  stream_.sync();
  EXPECT_TRUE(seen.is_done());
}

TEST_F(GraphTest, DotNamesTheNodes) {
  GraphDefinition definition = GraphDefinition::create();
  definition.add_memset({}, {.dst = buffer_.handle(), .value = 1, .element_size = 4, .width = 1});
  const std::string text = definition.dot(CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
  EXPECT_NE(text.find("digraph"), text.npos);
  EXPECT_NE(text.find("MEMSET"), text.npos) << text;
}

TEST_F(GraphTest, APatternHasOneTwoOrFourBytes) {
  MemsetParams params;
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0xff}};
  params.set_pattern(std::span{bytes}.first(1));
  EXPECT_EQ(std::pair(params.value, params.element_size), std::pair(1U, 1U));
  params.set_pattern(std::span{bytes}.first(2));
  EXPECT_EQ(std::pair(params.value, params.element_size), std::pair(0x201U, 2U));
  params.set_pattern(bytes);
  EXPECT_EQ(std::pair(params.value, params.element_size), std::pair(0xff030201U, 4U));
  EXPECT_THROW(params.set_pattern(std::span{bytes}.first(3)), std::invalid_argument);
  EXPECT_THROW(params.set_pattern({}), std::invalid_argument);
}

TEST_F(GraphTest, AllocatedMemoryIsWhatWasAskedFor) {
  GraphDefinition definition = GraphDefinition::create();
  const auto [node, address] = definition.add_alloc({}, {.size = 64, .peers = {0}});
  EXPECT_NE(address, 0U);
  const AllocParams made = alloc_params(GraphNodeRef{node}.allocation());
  EXPECT_EQ(made.type, GraphMemoryType::device);
  EXPECT_EQ(made.size, 64U);
  EXPECT_EQ(made.device, 0);
  EXPECT_TRUE(made.peers.empty());  // the device itself is no peer
  const CUgraphNode fill =
      definition.add_memset(std::span{&node, 1}, {.dst = address, .value = 5, .width = 64});
  definition.add_free(std::span{&fill, 1}, address);
  definition.instantiate().launch(stream_);
  stream_.sync();
}

TEST_F(GraphTest, TheDriversParametersSayWhoseMemoryIsAllocated) {
  CUDA_MEM_ALLOC_NODE_PARAMS native{};
  native.poolProps.location.type = CU_MEM_LOCATION_TYPE_HOST;
  native.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  EXPECT_EQ(alloc_params(native).type, GraphMemoryType::host);
  native.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  EXPECT_EQ(alloc_params(native).type, GraphMemoryType::device);
  native.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  CUmemAccessDesc peer{};
  peer.location.id = 3;
  native.accessDescs = &peer;
  native.accessDescCount = 1;
  EXPECT_EQ(alloc_params(native).type, GraphMemoryType::managed);
  EXPECT_EQ(alloc_params(native).peers, std::vector<int>{3});
}

}  // namespace
}  // namespace cucore
