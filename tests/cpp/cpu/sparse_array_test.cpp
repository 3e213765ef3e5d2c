// SPDX-License-Identifier: Apache-2.0
// Sparse arrays: mapping and unmapping of tiles.
#include <vector>

#include "support.hpp"

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20, kTile = std::size_t{64} << 10;

class SparseArrays : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    ASSERT_OK(cuMemCreate(&plain_memory_, kUnit, &prop, 0));
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    ASSERT_OK(cuMemCreate(&memory_, kUnit, &prop, 0));
  }
  static CUDA_ARRAY3D_DESCRIPTOR describe(std::size_t width, std::size_t height) {
    CUDA_ARRAY3D_DESCRIPTOR desc{};
    desc.Width = width, desc.Height = height;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = CUDA_ARRAY3D_SPARSE;
    return desc;
  }
  CUarrayMapInfo request(CUarray array, unsigned y, unsigned width, unsigned height) const {
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    info.subresource.sparseLevel.offsetY = y;
    info.subresource.sparseLevel.extentWidth = width;
    info.subresource.sparseLevel.extentHeight = height;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = memory_;
    info.deviceBitMask = 1;
    return info;
  }
  static CUDA_MEMCPY2D row(CUarray array, std::size_t y, float* host, std::size_t count,
                           bool read) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = read ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = read ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    (read ? copy.srcArray : copy.dstArray) = array;
    (read ? copy.srcY : copy.dstY) = y;
    copy.srcHost = host, copy.dstHost = host;
    copy.WidthInBytes = count * sizeof(float);
    copy.Height = 1;
    return copy;
  }
  /// Expects that a texel of a mapped level keeps its value.
  static void expect_kept(CUmipmappedArray mipmap, unsigned number) {
    CUarray level = nullptr;
    ASSERT_OK(cuMipmappedArrayGetLevel(&level, mipmap, number));
    float value = static_cast<float>(number) + 0.5f, back = 0;
    const auto write = row(level, 0, &value, 1, false), read = row(level, 0, &back, 1, true);
    ASSERT_OK(cuMemcpy2D(&write));
    ASSERT_OK(cuMemcpy2D(&read));
    EXPECT_EQ(value, back);
  }
  CUmemGenericAllocationHandle memory_ = 0, plain_memory_ = 0;
};

TEST_F(SparseArrays, MappedTilesKeepTheirContents) {
  const auto desc = describe(300, 200);
  CUarray array = nullptr;
  ASSERT_OK(cuArray3DCreate(&array, &desc));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  ASSERT_OK(cuArrayGetSparseProperties(&tiles, array));
  EXPECT_EQ(kTile, tiles.tileExtent.width * tiles.tileExtent.height * tiles.tileExtent.depth *
                       sizeof(float));
  const unsigned second = tiles.tileExtent.height;
  auto info = request(array, second, 300, tiles.tileExtent.height);
  info.offset = kTile;
  ASSERT_OK(cuMemMapArrayAsync(&info, 1, nullptr));
  std::vector<float> in(300, 1.5f), out(300);
  auto write = row(array, second + 3, in.data(), 300, false),
       read = row(array, second + 3, out.data(), 300, true);
  ASSERT_OK(cuMemcpy2D(&write));
  ASSERT_OK(cuMemcpy2D(&read));
  EXPECT_EQ(in, out);

  // The tile's bytes are those of the mapped memory at the offset.
  CUdeviceptr range = 0;
  ASSERT_OK(cuMemAddressReserve(&range, kUnit, 0, 0, 0));
  ASSERT_OK(cuMemMap(range, kUnit, 0, memory_, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_OK(cuMemSetAccess(range, kUnit, &access, 1));
  float first = 0;
  ASSERT_OK(
      cuMemcpyDtoH(&first, range + kTile + 3 * kTile / tiles.tileExtent.height, sizeof first));
  EXPECT_EQ(1.5f, first);

  info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  ASSERT_OK(cuMemMapArrayAsync(&info, 1, nullptr));
  ASSERT_OK(cuMemcpy2D(&read));
  EXPECT_EQ(std::vector<float>(300), out);  // unmapped: zeros
  ASSERT_OK(cuArrayDestroy(array));
}

TEST_F(SparseArrays, BoxesThatCutTilesFail) {
  const auto desc = describe(300, 200);
  CUarray array = nullptr;
  ASSERT_OK(cuArray3DCreate(&array, &desc));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  ASSERT_OK(cuArrayGetSparseProperties(&tiles, array));
  auto info = request(array, 1, 300, tiles.tileExtent.height);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info = request(array, 0, 300, tiles.tileExtent.height - 1);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info = request(array, 0, 301, tiles.tileExtent.height);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info = request(array, 0, 300, tiles.tileExtent.height);
  info.offset = kUnit;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));  // past the memory
  info.offset = 0;
  info.memHandle.memHandle = 77;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info.memHandle.memHandle = plain_memory_;  // not made for tiles
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info.memHandle.memHandle = memory_;
  info.deviceBitMask = 2;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  auto plain = describe(8, 8);
  plain.Flags = 0;
  CUarray dense = nullptr;
  ASSERT_OK(cuArray3DCreate(&dense, &plain));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&tiles, dense));
  info = request(dense, 0, 8, 8);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
}

TEST_F(SparseArrays, SmallMipmapLevelsShareATail) {
  const auto desc = describe(512, 512);
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &desc, 10));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  ASSERT_OK(cuMipmappedArrayGetSparseProperties(&tiles, mipmap));
  EXPECT_EQ(512u >> (tiles.miptailFirstLevel - 1) >= tiles.tileExtent.height, true);
  EXPECT_LT(512u >> tiles.miptailFirstLevel, tiles.tileExtent.height);
  ASSERT_GT(tiles.miptailSize, 0u);
  CUarrayMapInfo tail{};
  tail.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  tail.resource.mipmap = mipmap;
  tail.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  tail.subresource.miptail.size = tiles.miptailSize;
  tail.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  tail.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  tail.memHandle.memHandle = memory_;
  tail.deviceBitMask = 1;
  auto level = request(nullptr, 0, 256, 256);
  level.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  level.resource.mipmap = mipmap;
  level.subresource.sparseLevel.level = 1;
  level.offset = tiles.miptailSize;
  CUarrayMapInfo both[] = {tail, level};
  ASSERT_OK(cuMemMapArrayAsync(both, 2, nullptr));
  for (const unsigned i : {1u, 9u}) expect_kept(mipmap, i);
  level.subresource.sparseLevel.level = tiles.miptailFirstLevel;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&level, 1, nullptr));
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
}

TEST_F(SparseArrays, DeferredArraysAreMappedAsAWhole) {
  auto desc = describe(300, 200);
  desc.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray array = nullptr;
  ASSERT_OK(cuArray3DCreate(&array, &desc));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  ASSERT_OK(cuArrayGetMemoryRequirements(&needs, array, 0));
  EXPECT_GE(needs.size, 300u * 200u * sizeof(float));
  EXPECT_EQ(0u, needs.size % needs.alignment);
  ASSERT_LE(needs.size, kUnit - kTile);
  auto info = request(array, 0, 300, 200);
  info.offset = needs.alignment;
  info.subresource.sparseLevel.extentHeight = 100;  // not the whole
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info.subresource.sparseLevel.extentHeight = 200;
  info.memHandle.memHandle = plain_memory_;  // not made for arrays
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
  info.memHandle.memHandle = memory_;
  ASSERT_OK(cuMemMapArrayAsync(&info, 1, nullptr));
  std::vector<float> in(300, 3.5f), out(300);
  auto write = row(array, 199, in.data(), 300, false),
       read = row(array, 199, out.data(), 300, true);
  ASSERT_OK(cuMemcpy2D(&write));

  // Another array mapped to the same memory has the same texels.
  CUarray other = nullptr;
  ASSERT_OK(cuArray3DCreate(&other, &desc));
  info.resource.array = other;
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  info.subresource.miptail = {0, 0, needs.size};
  ASSERT_OK(cuMemMapArrayAsync(&info, 1, nullptr));
  read.srcArray = other;
  ASSERT_OK(cuMemcpy2D(&read));
  EXPECT_EQ(in, out);
  ASSERT_OK(cuArrayDestroy(other));
  ASSERT_OK(cuArrayDestroy(array));
}

TEST_F(SparseArrays, DeferredMipmapsAreMapped) {
  auto desc = describe(64, 64);
  desc.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &desc, 7));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  ASSERT_OK(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0));
  CUarrayMapInfo info = request(nullptr, 0, 64, 64);
  info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  info.resource.mipmap = mipmap;
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  info.subresource.miptail = {0, 0, needs.size};
  ASSERT_OK(cuMemMapArrayAsync(&info, 1, nullptr));
  for (const unsigned i : {0u, 6u}) expect_kept(mipmap, i);
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetSparseProperties(&tiles, mipmap));
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
}

TEST_F(SparseArrays, SparseAndDeferredFlagsExcludeEachOther) {
  auto desc = describe(64, 64);
  desc.Flags = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray array = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &desc));
}

}  // namespace
