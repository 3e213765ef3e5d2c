// SPDX-License-Identifier: Apache-2.0
// graph_builder_test.cpp: calls become nodes.
#include "cucore/graph_builder.hpp"

#include <array>
#include <atomic>
#include <vector>

#include "cucore/device.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(!std::is_copy_constructible_v<GraphBuilder> &&
              std::is_convertible_v<GraphBuilder&, StreamRef>);
static_assert(KernelArgument<GraphCondition>);

class GraphBuilderTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    buffer_ = Device{0}.allocate(4, stream_);
    buffer_.fill(0, stream_);
    stream_.sync();
    add_.emplace(ObjectCode::from_ptx(testing::kAddPtx).get_kernel("add_value"));
    builder_.emplace(Device{0}.create_stream());
  }
  void add(StreamRef to, int value) { launch(to, {}, *add_, buffer_, value, 1u); }
  int run(const Graph& graph) {
    graph.launch(stream_);
    int back = 0;
    buffer_.copy_to(std::span{&back, 1}, stream_);
    stream_.sync();
    return back;
  }
  Stream stream_;
  Buffer buffer_;
  std::optional<Kernel> add_;
  std::optional<GraphBuilder> builder_;
};

TEST_F(GraphBuilderTest, CallsBecomeNodesOfAGraph) {
  builder_->begin_building();
  EXPECT_TRUE(builder_->is_building());
  add(*builder_, 3);
  add(*builder_, 4);
  EXPECT_THROW(static_cast<void>(builder_->graph_definition()), InvalidStateError);
  const Graph graph = builder_->end_building().complete();
  EXPECT_EQ(builder_->graph_definition().nodes().size(), 2u);
  EXPECT_EQ(run(graph), 7);
  EXPECT_EQ(run(graph), 14);
}

TEST_F(GraphBuilderTest, BranchesAreJoined) {
  builder_->begin_building();
  add(*builder_, 1);
  std::vector<GraphBuilder> others = builder_->split(3);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_TRUE(others[0].is_join_required());
  others[0].callback([] {});
  others[1].callback([] {});
  builder_->join(others);
  EXPECT_TRUE(others[0].is_closed());
  add(*builder_, 1);
  EXPECT_EQ(run(builder_->end_building().complete()), 2);
  EXPECT_THROW(static_cast<void>(builder_->split(2)), InvalidStateError);
}

TEST_F(GraphBuilderTest, AFunctionOfTheHostIsKeptByTheGraph) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  builder_->begin_building();
  builder_->callback([calls] { ++*calls; });
  Graph graph = builder_->end_building().complete();
  builder_->close();
  EXPECT_EQ(run(graph), 0);
  EXPECT_EQ(run(graph), 0);
  EXPECT_EQ(*calls, 2);
}

TEST_F(GraphBuilderTest, AChildGraphRunsAtItsPlace) {
  GraphBuilder child{Device{0}.create_stream()};
  child.begin_building();
  add(child, 5);
  child.end_building();
  builder_->begin_building();
  builder_->embed(child.graph_definition());
  add(*builder_, 1);
  EXPECT_EQ(run(builder_->end_building().complete()), 6);
}

TEST_F(GraphBuilderTest, TheBodyOfAConditionRunsWhereItIsNotZero) {
  for (const unsigned value : {0u, 1u}) {
    GraphBuilder builder{Device{0}.create_stream()};
    builder.begin_building();
    std::optional<GraphBuilder> body;
    try {
      body.emplace(builder.if_then(builder.create_condition(value)));
    } catch (const CUDAError& error) {
      GTEST_SKIP() << error.what();
    }
    body->begin_building();
    add(*body, 10);
    body->end_building();
    EXPECT_THROW(body->begin_building(), InvalidStateError);
    EXPECT_EQ(run(builder.end_building().complete()), value == 0 ? 0 : 10);
  }
}

TEST_F(GraphBuilderTest, WhatIsNotAllowedIsSaid) {
  EXPECT_THROW(builder_->end_building(), InvalidStateError);
  EXPECT_THROW(static_cast<void>(builder_->complete()), InvalidStateError);
  builder_->begin_building();
  EXPECT_THROW(builder_->begin_building(), InvalidStateError);
  EXPECT_THROW(static_cast<void>(builder_->split(1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(builder_->complete()), InvalidStateError);
  builder_->close();
  builder_->close();
  EXPECT_TRUE(builder_->is_closed());
  EXPECT_THROW(add(*builder_, 1), InvalidStateError);
}

TEST_F(GraphBuilderTest, ABuilderThatGoesEndsItsCapture) {
  const Stream from = Device{0}.create_stream();
  {
    GraphBuilder builder{from};
    builder.begin_building();
    add(builder, 1);
    EXPECT_TRUE(from.is_capturing());
  }
  EXPECT_FALSE(from.is_capturing());
}

TEST_F(GraphBuilderTest, ABrokenCaptureCanBeBegunAgain) {
  builder_->begin_building();
  std::vector<GraphBuilder> others = builder_->split(2);  // never joined
  others[0].callback([] {});
  EXPECT_THROW(builder_->end_building(), CUDAError);
  EXPECT_TRUE(others[0].is_closed());
  builder_->begin_building();
  add(*builder_, 2);
  EXPECT_EQ(run(builder_->end_building().complete()), 2);
}

TEST_F(GraphBuilderTest, JoiningAllGoesOnInTheBuilderThatSplitDidNotMake) {
  builder_->begin_building();
  std::vector<GraphBuilder> others = builder_->split(3);
  const std::array<GraphBuilder*, 3> all{&others[0], &*builder_, &others[1]};
  EXPECT_FALSE(others[0].is_primary());
  EXPECT_EQ(&GraphBuilder::join_all(all), &*builder_);
  EXPECT_TRUE(others[0].is_closed() && others[1].is_closed());
  EXPECT_FALSE(builder_->is_built());
  builder_->end_building();
  EXPECT_TRUE(builder_->is_built() && builder_->is_primary());
  EXPECT_TRUE(builder_->completed().is_valid());
}

TEST_F(GraphBuilderTest, ABranchIsJoinedOnce) {
  builder_->begin_building();
  std::vector<GraphBuilder> others = builder_->split(2);
  const std::array<GraphBuilder*, 2> twice{&others[0], &others[0]};
  EXPECT_THROW(builder_->join(std::span<GraphBuilder* const>{twice}), std::invalid_argument);
  EXPECT_TRUE(others[0].is_join_required());
  const std::array<GraphBuilder*, 1> one{&*builder_};
  EXPECT_THROW(GraphBuilder::join_all(one), std::invalid_argument);
  builder_->join(others);
  builder_->end_building();
}

}  // namespace
}  // namespace cucore
