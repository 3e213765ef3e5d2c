// SPDX-License-Identifier: Apache-2.0
// texture_test.cpp: arrays, textures and surfaces.
#include "cucore/texture.hpp"

#include <numeric>
#include <vector>

#include "cucore/launch.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(KernelArgument<TextureObject> && KernelArgument<SurfaceObject>);
static_assert(!KernelArgument<OpaqueArray>);

constexpr const char* kReadPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 out) {
  .reg .b32 %r<4>;
  .reg .f32 %f<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [texture];
  ld.param.u64 %rd1, [out];
  mov.u32 %r0, %tid.x;
  cvt.rn.f32.u32 %f4, %r0;
  add.f32 %f4, %f4, 0f3F000000;
  tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%f4}];
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.f32 [%rd1], %f0;
  ret;
}
.visible .entry write(.param .u64 surface) {
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [surface];
  mov.u32 %r0, %tid.x;
  cvt.rn.f32.u32 %f0, %r0;
  mov.b32 %r2, %f0;
  shl.b32 %r1, %r0, 2;
  sust.b.1d.b32.trap [%rd0, {%r1}], {%r2};
  ret;
}
)";

class TextureTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    std::iota(numbers_.begin(), numbers_.end(), 1.0F);
  }
  std::vector<float> read(const TextureObject& texture) {
    const Kernel kernel = ObjectCode::from_ptx(kReadPtx).get_kernel("read");
    Buffer out = Device{0}.allocate(8 * sizeof(float), stream_);
    launch(stream_, {.grid = {1}, .block = {8}}, kernel, texture, out);
    std::vector<float> back(8);
    out.copy_to(std::span{back}, stream_);
    stream_.sync();
    return back;
  }
  Stream stream_;
  std::vector<float> numbers_ = std::vector<float>(8);
};

TEST_F(TextureTest, ATextureReadsAnArrayThatItsOwnerHasClosed) {
  OpaqueArray array{{.shape = {8}}};
  EXPECT_EQ(array.size_bytes(), 32u);
  array.copy_from(std::span{numbers_}, stream_);
  stream_.sync();
  TextureObject texture{ResourceDescriptor::from_opaque_array(array)};
  array.close();
  EXPECT_TRUE(array.is_closed());
  EXPECT_EQ(array.handle(), nullptr);
  EXPECT_EQ(read(texture), numbers_);
  texture.close();
  texture.close();
  EXPECT_THROW(read(texture), InvalidStateError);
}

TEST_F(TextureTest, ATextureReadsTheMemoryOfABuffer) {
  Buffer buffer = Device{0}.allocate(32, stream_);
  buffer.copy_from(std::span{numbers_}, stream_);
  stream_.sync();
  const auto linear = ResourceDescriptor::from_linear(buffer, ArrayFormat::float32, 1);
  EXPECT_EQ(linear.type(), CU_RESOURCE_TYPE_LINEAR);
  EXPECT_EQ(linear.raw().res.linear.sizeInBytes, 32u);
  EXPECT_THROW(static_cast<void>(
                   ResourceDescriptor::from_pitch2d(buffer, ArrayFormat::float32, 1, 8, 1, 16)),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(
                   ResourceDescriptor::from_pitch2d(buffer, ArrayFormat::float32, 1, 4, 3, 16)),
               std::invalid_argument);
}

TEST_F(TextureTest, AResourceWithoutElementsOrWithAPartOfOneIsRefused) {
  constexpr auto kFloat = ArrayFormat::float32;
  const BufferRef memory{Device{0}.allocate(32, stream_)};
  const auto linear = [&](std::size_t size, unsigned channels) {
    static_cast<void>(ResourceDescriptor::from_linear({memory.handle(), size}, kFloat, channels));
  };
  EXPECT_NO_THROW(linear(24, 2));
  EXPECT_THROW(linear(0, 1), std::invalid_argument);
  EXPECT_THROW(linear(30, 1), std::invalid_argument);
  EXPECT_THROW(linear(12, 2), std::invalid_argument);
  const auto rows = [&](std::size_t width, std::size_t height) {
    static_cast<void>(ResourceDescriptor::from_pitch2d(memory, kFloat, 1, width, height, 16));
  };
  EXPECT_NO_THROW(rows(4, 2));
  EXPECT_THROW(rows(0, 2), std::invalid_argument);
  EXPECT_THROW(rows(4, 0), std::invalid_argument);
}

TEST_F(TextureTest, ACopyFromLargerMemoryTakesWhatTheArrayHolds) {
  const OpaqueArray array{{.shape = {4}}};
  array.copy_from(std::span{numbers_}, stream_);
  std::vector<float> back(8, -1.0F);
  array.copy_to(std::span{back}, stream_);
  stream_.sync();
  EXPECT_EQ(back[3], numbers_[3]);
  EXPECT_EQ(back[4], -1.0F);
  EXPECT_THROW(array.copy_from(std::span{numbers_}.first(3), stream_), std::invalid_argument);
}

TEST_F(TextureTest, ASurfaceWritesAnArray) {
  const OpaqueArray array{{.shape = {8}, .is_surface_load_store = true}};
  const SurfaceObject surface{ResourceDescriptor::from_opaque_array(array)};
  const Kernel kernel = ObjectCode::from_ptx(kReadPtx).get_kernel("write");
  launch(stream_, {.grid = {1}, .block = {8}}, kernel, surface);
  std::vector<float> back(8);
  array.copy_to(std::span{back}, stream_);
  stream_.sync();
  EXPECT_EQ(back[7], 7.0F);
}

TEST_F(TextureTest, ASurfaceNeedsAnArrayThatSurfacesCanWrite) {
  const OpaqueArray array{{.shape = {8}}};
  EXPECT_THROW(SurfaceObject{ResourceDescriptor::from_opaque_array(array)}, std::invalid_argument);
  Buffer buffer = Device{0}.allocate(32, stream_);
  EXPECT_THROW(SurfaceObject{ResourceDescriptor::from_linear(buffer, ArrayFormat::float32, 1)},
               std::invalid_argument);
}

TEST_F(TextureTest, ALevelIsHalfAsLargeAndKeepsItsMipmappedArray) {
  MipmappedArray mipmaps{{.shape = {16, 4}, .num_levels = 3}};
  const OpaqueArray level = mipmaps.get_level(1);
  EXPECT_EQ(level.options().shape, (std::vector<std::size_t>{8, 2}));
  EXPECT_EQ(mipmaps.get_level(2).options().shape, (std::vector<std::size_t>{4, 1}));
  EXPECT_THROW(static_cast<void>(mipmaps.get_level(3)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(mipmaps.get_level(-1)), std::invalid_argument);
  mipmaps.close();
  EXPECT_THROW(static_cast<void>(mipmaps.get_level(0)), InvalidStateError);
  std::vector<float> data(16, 3.0F);
  level.copy_from(std::span{data}, stream_);
  std::vector<float> back(16);
  level.copy_to(std::span{back}, stream_);
  stream_.sync();
  EXPECT_EQ(back, data);
}

TEST_F(TextureTest, OptionsThatMakeNoArrayAreRefused) {
  EXPECT_THROW(OpaqueArray{{.shape = {}}}, std::invalid_argument);
  EXPECT_THROW((OpaqueArray{{.shape = {4, 0}}}), std::invalid_argument);
  EXPECT_THROW((OpaqueArray{{.shape = {1, 1, 1, 1}}}), std::invalid_argument);
  EXPECT_THROW((OpaqueArray{{.shape = {4}, .num_channels = 3}}), std::invalid_argument);
  EXPECT_THROW((OpaqueArray{{.shape = {4}, .format = static_cast<ArrayFormat>(99)}}),
               std::invalid_argument);
  EXPECT_THROW((MipmappedArray{{.shape = {4}, .num_levels = 4}}), std::invalid_argument);
  EXPECT_THROW((MipmappedArray{{.shape = {4}, .num_levels = 0}}), std::invalid_argument);
}

}  // namespace
}  // namespace cucore
