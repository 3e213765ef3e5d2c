// SPDX-License-Identifier: Apache-2.0
// Texture and surface references: settings round-trip, and the module's variable holds the handle
// of the object.
#include <cstdint>
#include <cstring>

#include "cpu/engine/runtime/texture.hpp"
#include "support.hpp"

namespace {

class TextureReferences : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    kernel("noop");  // loads the module
    ASSERT_OK(cuModuleGetTexRef(&texture_, module_, "picture"));
  }
  CUarray array(std::size_t width, std::size_t height, unsigned flags = 0) {
    CUDA_ARRAY3D_DESCRIPTOR desc{};
    desc.Width = width, desc.Height = height;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = flags;
    CUarray made = nullptr;
    EXPECT_OK(cuArray3DCreate(&made, &desc));
    return made;
  }
  /// The state that device code reads through a reference.
  const cucpu::TextureObject* seen(const char* name) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuModuleGetGlobal(&at, nullptr, module_, name));
    std::uint64_t handle = 0;
    EXPECT_OK(cuMemcpyDtoH(&handle, at, sizeof handle));
    return reinterpret_cast<const cucpu::TextureObject*>(handle);
  }
  CUtexref texture_ = nullptr;
};

TEST_F(TextureReferences, ReferencesAreFoundByName) {
  CUtexref again = nullptr;
  ASSERT_OK(cuModuleGetTexRef(&again, module_, "picture"));
  EXPECT_EQ(texture_, again);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND,
            cuModuleGetTexRef(&again, module_, "table"));  // a variable, but no reference
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&again, module_, "canvas"));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&again, module_, "nothing"));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuModuleGetTexRef(&again, module_, nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(texture_));  // owned by the module
  EXPECT_EQ(nullptr, seen("picture"));
}

TEST_F(TextureReferences, SettingsAreStored) {
  ASSERT_OK(cuTexRefSetAddressMode(texture_, 1, CU_TR_ADDRESS_MODE_MIRROR));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddressMode(texture_, 3, CU_TR_ADDRESS_MODE_WRAP));
  CUaddress_mode mode{};
  ASSERT_OK(cuTexRefGetAddressMode(&mode, texture_, 1));
  EXPECT_EQ(CU_TR_ADDRESS_MODE_MIRROR, mode);
  ASSERT_OK(cuTexRefGetAddressMode(&mode, texture_, 0));
  EXPECT_EQ(CU_TR_ADDRESS_MODE_CLAMP, mode);
  ASSERT_OK(cuTexRefSetFilterMode(texture_, CU_TR_FILTER_MODE_LINEAR));
  ASSERT_OK(cuTexRefSetMipmapFilterMode(texture_, CU_TR_FILTER_MODE_LINEAR));
  CUfilter_mode filter{};
  ASSERT_OK(cuTexRefGetFilterMode(&filter, texture_));
  EXPECT_EQ(CU_TR_FILTER_MODE_LINEAR, filter);
  ASSERT_OK(cuTexRefGetMipmapFilterMode(&filter, texture_));
  EXPECT_EQ(CU_TR_FILTER_MODE_LINEAR, filter);
  ASSERT_OK(cuTexRefSetMipmapLevelBias(texture_, 0.5f));
  ASSERT_OK(cuTexRefSetMipmapLevelClamp(texture_, 1.0f, 3.0f));
  float bias = 0, low = 0, high = 0;
  ASSERT_OK(cuTexRefGetMipmapLevelBias(&bias, texture_));
  ASSERT_OK(cuTexRefGetMipmapLevelClamp(&low, &high, texture_));
  EXPECT_EQ(0.5f, bias);
  EXPECT_EQ(1.0f, low);
  EXPECT_EQ(3.0f, high);
  ASSERT_OK(cuTexRefSetMaxAnisotropy(texture_, 99));
  int most = 0;
  ASSERT_OK(cuTexRefGetMaxAnisotropy(&most, texture_));
  EXPECT_EQ(16, most);
  float color[4] = {1, 2, 3, 4}, read[4] = {};
  ASSERT_OK(cuTexRefSetBorderColor(texture_, color));
  ASSERT_OK(cuTexRefGetBorderColor(read, texture_));
  EXPECT_EQ(3.0f, read[2]);
  ASSERT_OK(cuTexRefSetFlags(texture_, CU_TRSF_NORMALIZED_COORDINATES));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(texture_, 1u << 20));
  unsigned flags = 0;
  ASSERT_OK(cuTexRefGetFlags(&flags, texture_));
  EXPECT_EQ(2u, flags);
  ASSERT_OK(cuTexRefSetFormat(texture_, CU_AD_FORMAT_UNSIGNED_INT8, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFormat(texture_, CU_AD_FORMAT_UNSIGNED_INT8, 3));
  CUarray_format format{};
  int channels = 0;
  ASSERT_OK(cuTexRefGetFormat(&format, &channels, texture_));
  EXPECT_EQ(CU_AD_FORMAT_UNSIGNED_INT8, format);
  EXPECT_EQ(4, channels);
}

TEST_F(TextureReferences, LinearMemoryIsBoundAtAnAlignedAddress) {
  CUdeviceptr memory = 0, read = 0;
  ASSERT_OK(cuMemAlloc(&memory, 4096));
  std::size_t offset = 1;
  ASSERT_OK(cuTexRefSetAddress(&offset, texture_, memory, 4096));
  EXPECT_EQ(0u, offset);
  ASSERT_NE(nullptr, seen("picture"));
  EXPECT_EQ(1024u, seen("picture")->width);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(nullptr, texture_, memory + 16, 64));
  ASSERT_OK(cuTexRefSetAddress(&offset, texture_, memory + 16, 64));
  EXPECT_EQ(16u, offset);
  ASSERT_OK(cuTexRefGetAddress(&read, texture_));
  EXPECT_EQ(memory, read);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuTexRefSetAddress(&offset, texture_, memory, 8192));  // past its end
  ASSERT_OK(cuTexRefSetFormat(texture_, CU_AD_FORMAT_UNSIGNED_INT8, 4));
  EXPECT_EQ(20u, seen("picture")->width);
  CUDA_ARRAY_DESCRIPTOR desc{16, 8, CU_AD_FORMAT_FLOAT, 1};
  ASSERT_OK(cuTexRefSetAddress2D(texture_, &desc, memory, 64));
  EXPECT_EQ(8u, seen("picture")->height);
  EXPECT_EQ(64u, seen("picture")->row_pitch);
  CUarray none = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&none, texture_));
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(TextureReferences, ArraysAreBound) {
  const CUarray picture = array(8, 4);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(texture_, picture, 0));
  ASSERT_OK(cuTexRefSetArray(texture_, picture, CU_TRSA_OVERRIDE_FORMAT));
  CUarray read = nullptr;
  ASSERT_OK(cuTexRefGetArray(&read, texture_));
  EXPECT_EQ(picture, read);
  EXPECT_EQ(8u, seen("picture")->width);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuTexRefSetArray(texture_, reinterpret_cast<CUarray>(8), CU_TRSA_OVERRIDE_FORMAT));
  ASSERT_OK(cuTexRefGetArray(&read, texture_));
  EXPECT_EQ(picture, read);  // a failed change has no effect

  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = 16;
  desc.Format = CU_AD_FORMAT_FLOAT;
  desc.NumChannels = 1;
  CUmipmappedArray mipmap = nullptr, seen_mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &desc, 5));
  ASSERT_OK(cuTexRefSetMipmappedArray(texture_, mipmap, CU_TRSA_OVERRIDE_FORMAT));
  ASSERT_OK(cuTexRefGetMipmappedArray(&seen_mipmap, texture_));
  EXPECT_EQ(mipmap, seen_mipmap);
  EXPECT_EQ(5u, seen("picture")->level_count);
  EXPECT_EQ(4u, seen("picture")->levels[2].width);
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
  ASSERT_OK(cuArrayDestroy(picture));
}

TEST_F(TextureReferences, ReferencesWithoutModuleAreCreatedAndDestroyed) {
  CUtexref own = nullptr;
  ASSERT_OK(cuTexRefCreate(&own));
  ASSERT_OK(cuTexRefSetFilterMode(own, CU_TR_FILTER_MODE_LINEAR));
  ASSERT_OK(cuParamSetTexRef(kernel("noop"), CU_PARAM_TR_DEFAULT, own));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuParamSetTexRef(kernel("noop"), 0, own));
  ASSERT_OK(cuTexRefDestroy(own));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuTexRefDestroy(own));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuTexRefSetFlags(own, 0));
}

TEST_F(TextureReferences, UnloadedModuleRetiresItsReferences) {
  ASSERT_OK(cuModuleUnload(module_));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuTexRefSetFlags(texture_, 0));
}

TEST_F(TextureReferences, SurfaceWithoutStoreFlagFails) {
  CUsurfref surface = nullptr;
  ASSERT_OK(cuModuleGetSurfRef(&surface, module_, "canvas"));
  CUarray read = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuSurfRefGetArray(&read, surface));
  const CUarray plain = array(4, 4), canvas = array(4, 4, CUDA_ARRAY3D_SURFACE_LDST);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(surface, plain, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(surface, canvas, 1));
  ASSERT_OK(cuSurfRefSetArray(surface, canvas, 0));
  ASSERT_OK(cuSurfRefGetArray(&read, surface));
  EXPECT_EQ(canvas, read);
  EXPECT_EQ(4u, seen("canvas")->width);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleGetSurfRef(&surface, module_, "picture"));
}

}  // namespace
