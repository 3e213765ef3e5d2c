// SPDX-License-Identifier: Apache-2.0
// typed_kernel_test.cpp: kernels whose parameter types the compiler checks.
#include "cucore/typed_kernel.hpp"

#include <string>
#include <vector>

#include "support.hpp"

namespace cucore {
namespace {

using Scale = TypedKernel<float*, float, unsigned>;

template <class... Args>
concept LaunchesScale = requires(StreamRef stream, const LaunchConfig& config, const Scale& kernel,
                                 const Args&... args) {
  launch(stream, config, kernel, args...);
};
static_assert(LaunchesScale<Buffer, float, unsigned> && LaunchesScale<CUdeviceptr, int, int>);
static_assert(LaunchesScale<float*, double, std::size_t>);
static_assert(!LaunchesScale<Buffer, float>);                  // one too few
static_assert(!LaunchesScale<Buffer, float, float>);           // a fraction for an integer
static_assert(!LaunchesScale<Buffer, Buffer, unsigned>);       // an address for a number
static_assert(!LaunchesScale<const float*, float, unsigned>);  // the kernel writes to it
static_assert(!LaunchesScale<double*, float, unsigned>);
static_assert(!LaunchesScale<float, float, unsigned>);

constexpr const char* kScalePtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data];
  ld.param.f32 %f0, [factor];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p, %r2, %r1;
  @%p bra done;
  cvta.to.global.u64 %rd1, %rd0;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.f32 %f1, [%rd1];
  mul.f32 %f1, %f1, %f0;
  st.global.f32 [%rd1], %f1;
done:
  ret;
}
)";

class TypedKernelTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    code_ = ObjectCode::from_ptx(kScalePtx);
  }
  template <class Call>
  static std::string message_of(Call call) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  Stream stream_;
  std::optional<ObjectCode> code_;
};

TEST_F(TypedKernelTest, AnIntForAFloatParameterIsConverted) {
  const Scale scale{code_->get_kernel("scale")};
  std::vector<float> data(8, 2.0F);
  Buffer buffer = Device{0}.allocate(data.size() * sizeof(float), stream_);
  buffer.copy_from(std::span{data}, stream_);
  launch(stream_, {.grid = {1}, .block = {8}}, scale, buffer, 3, 7);
  buffer.copy_to(std::span{data}, stream_);
  stream_.sync();
  EXPECT_EQ(data[6], 6.0F);
  EXPECT_EQ(data[7], 2.0F);
}

TEST_F(TypedKernelTest, ASignatureThatIsNotTheKernelsNamesTheParameter) {
  const Kernel kernel = code_->get_kernel("scale");
  EXPECT_EQ(message_of([&] { TypedKernel<float*, int, unsigned>{kernel}; }),
            "argument 1 of kernel scale: parameter 1 'factor' is float, got a 4-byte integer");
  EXPECT_NE(message_of([&] { TypedKernel<float*, float>{kernel}; }).find("takes 3 arguments"),
            std::string::npos);
  EXPECT_NE(message_of([&] { TypedKernel<float*, double, unsigned>{kernel}; }).find("8 bytes"),
            std::string::npos);
}

TEST_F(TypedKernelTest, AnUntypedLaunchRefusesAnIntForAFloatParameter) {
  const Kernel kernel = code_->get_kernel("scale");
  EXPECT_EQ(kernel.params()[1].kind, ParamKind::floating);
  EXPECT_EQ(kernel.param_name(1), "factor");
  EXPECT_EQ(kernel.param_name(7), "");
  Buffer buffer = Device{0}.allocate(4, stream_);
  const LaunchConfig config{.grid = {1}, .block = {1}};
  EXPECT_EQ(message_of([&] { launch(stream_, config, kernel, buffer, 3, 1u); }),
            "argument 1 of kernel scale: parameter 1 'factor' is float, got a 4-byte integer");
  EXPECT_EQ(message_of([&] { launch(stream_, config, kernel, buffer, 3.0F, 1.0F); }),
            "argument 2 of kernel scale: parameter 2 'n' is a 4-byte integer, got float");
  launch(stream_, config, kernel, buffer, 3.0F, 1u);
  stream_.sync();
}

}  // namespace
}  // namespace cucore
