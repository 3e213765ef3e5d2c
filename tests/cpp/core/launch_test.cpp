// SPDX-License-Identifier: Apache-2.0
// launch_test.cpp: kernels run with checked arguments.
#include "cucore/launch.hpp"

#include <memory>
#include <string>
#include <vector>

#include "support.hpp"

namespace cucore {
namespace {

// What cannot be a kernel's argument is refused when the program is compiled.
template <class... Args>
concept Launchable = requires(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                              const Args&... args) {
  launch(stream, config, kernel, args...);
};
struct Pair {
  int a;
  double b;
};
static_assert(Launchable<> && Launchable<Buffer, int, float, CUdeviceptr, Pair>);
static_assert(!Launchable<std::string> && !Launchable<std::vector<float>> && !Launchable<int[4]>);
static_assert(!Launchable<std::unique_ptr<int>> && !Launchable<Stream> && !Launchable<Kernel>);

class LaunchTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    code_ = ObjectCode::from_ptx(testing::kAddPtx);
  }
  Stream stream_;
  std::optional<ObjectCode> code_;
};

TEST_F(LaunchTest, AKernelChangesTheBuffer) {
  const Kernel kernel = code_->get_kernel("add_value");
  std::vector<int> data(1000, 7);
  Buffer buffer = Device{0}.allocate(data.size() * sizeof(int), stream_);
  buffer.copy_from(std::span{data}, stream_);
  const LaunchConfig config{.grid = {4}, .block = {256}};
  launch(stream_, config, kernel, buffer, 5, 999u);
  buffer.copy_to(std::span{data}, stream_);
  stream_.sync();
  EXPECT_EQ(data.front(), 12);
  EXPECT_EQ(data[998], 12);
  EXPECT_EQ(data[999], 7);
}

TEST_F(LaunchTest, WrongArgumentsAreNamed) {
  const Kernel kernel = code_->get_kernel("add_value");
  const LaunchConfig config{.grid = {1}, .block = {1}};
  Buffer buffer = Device{0}.allocate(4, stream_);
  EXPECT_THROW(launch(stream_, config, kernel, buffer, 5), std::invalid_argument);
  try {
    launch(stream_, config, kernel, buffer, 5.0, 1u);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("argument 1 of kernel add_value"), std::string::npos)
        << error.what();
  }
}

TEST_F(LaunchTest, ARefusedShapeIsDescribed) {
  const Kernel kernel = code_->get_kernel("add_value");
  Buffer buffer = Device{0}.allocate(4, stream_);
  try {
    launch(stream_, LaunchConfig{.grid = {1}, .block = {4096}}, kernel, buffer, 1, 1u);
    FAIL();
  } catch (const CUDAError& error) {
    EXPECT_NE(std::string{error.what()}.find("block (4096, 1, 1)"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.call(), "cuLaunchKernel");
    EXPECT_EQ(error.object(), "kernel add_value");
  }
}

TEST(LaunchConfigTest, ClustersMultiplyTheGrid) {
  std::array<CUlaunchAttribute, 4> attributes;
  LaunchConfig config{.grid = {4, 2}, .block = {32}, .cluster = Dim3{2, 1, 1}};
  config.is_cooperative = true;
  const CUlaunchConfig native = to_driver(config, nullptr, attributes);
  EXPECT_EQ(native.gridDimX, 8u);
  EXPECT_EQ(native.gridDimY, 2u);
  EXPECT_EQ(native.numAttrs, 2u);
}

}  // namespace
}  // namespace cucore
