// graph_test.cpp: work described once and launched many times.
#include "cucore/graph.hpp"

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

}  // namespace
}  // namespace cucore
