// Sparse arrays: tiles get memory and lose it again.
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
  CUmemGenericAllocationHandle memory_ = 0;
};

TEST_F(SparseArrays, KeepWhatIsInMappedTiles) {
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

  // The tile's bytes are those of the memory it was given, from the offset on.
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
  EXPECT_EQ(std::vector<float>(300), out);  // nothing there: zeros
  ASSERT_OK(cuArrayDestroy(array));
}

TEST_F(SparseArrays, RefuseBoxesThatCutTiles) {
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
  auto plain = describe(8, 8);
  plain.Flags = 0;
  CUarray dense = nullptr;
  ASSERT_OK(cuArray3DCreate(&dense, &plain));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&tiles, dense));
  info = request(dense, 0, 8, 8);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&info, 1, nullptr));
}

TEST_F(SparseArrays, MipmapsPutTheirSmallLevelsIntoATail) {
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
  for (const unsigned i : {1u, 9u}) {
    CUarray array = nullptr;
    ASSERT_OK(cuMipmappedArrayGetLevel(&array, mipmap, i));
    float value = static_cast<float>(i) + 0.5f, back = 0;
    auto write = row(array, 0, &value, 1, false), read = row(array, 0, &back, 1, true);
    ASSERT_OK(cuMemcpy2D(&write));
    ASSERT_OK(cuMemcpy2D(&read));
    EXPECT_EQ(value, back);
  }
  level.subresource.sparseLevel.level = tiles.miptailFirstLevel;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMapArrayAsync(&level, 1, nullptr));
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
}

}  // namespace
