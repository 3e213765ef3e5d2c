// SPDX-License-Identifier: Apache-2.0
// Arrays, textures, managed memory, green contexts, tensor maps and logs.
#include <cstring>
#include <numeric>
#include <string>

#include "cpu/engine/runtime/texture.hpp"
#include "support.hpp"

namespace {

class Objects : public DriverTest {};

TEST_F(Objects, ArraysKeepShapeAndBytes) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = 10;
  desc.Height = 4;
  desc.Depth = 3;
  desc.Format = CU_AD_FORMAT_FLOAT;
  desc.NumChannels = 2;
  CUarray array = nullptr;
  ASSERT_OK(cuArray3DCreate(&array, &desc));
  std::vector<float> in(10 * 4 * 3 * 2), out(in.size());
  std::iota(in.begin(), in.end(), 0.5f);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 80;
  copy.srcHeight = 4;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = 80;
  copy.Height = 4;
  copy.Depth = 3;
  ASSERT_OK(cuMemcpy3D(&copy));
  CUDA_MEMCPY3D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = 80;
  back.dstHeight = 4;
  back.WidthInBytes = 80;
  back.Height = 4;
  back.Depth = 3;
  ASSERT_OK(cuMemcpy3D(&back));
  EXPECT_EQ(in, out);
  back.srcZ = 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&back));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC texture{};
  CUtexObject object = 0;
  ASSERT_OK(cuTexObjectCreate(&object, &resource, &texture, nullptr));
  CUDA_RESOURCE_DESC read{};
  ASSERT_OK(cuTexObjectGetResourceDesc(&read, object));
  EXPECT_EQ(array, read.res.array.hArray);
  ASSERT_OK(cuTexObjectDestroy(object));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(object));
  CUsurfObject surface = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuSurfObjectCreate(&surface, &resource));  // without the flag for stores
  ASSERT_OK(cuArrayDestroy(array));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
}

TEST_F(Objects, MipmapLevelsHalveDownToOne) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = 16;
  desc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  desc.NumChannels = 1;
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &desc, 99));
  CUarray level = nullptr;
  ASSERT_OK(cuMipmappedArrayGetLevel(&level, mipmap, 4));
  CUDA_ARRAY3D_DESCRIPTOR found{};
  ASSERT_OK(cuArray3DGetDescriptor(&found, level));
  EXPECT_EQ(1u, found.Width);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 5));
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
}

TEST_F(Objects, ManagedMemoryStoresAdvice) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
  std::memset(reinterpret_cast<void*>(p), 1, 4096);  // the host may write
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, {0}},
      host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  ASSERT_OK(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  ASSERT_OK(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  ASSERT_OK(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  ASSERT_OK(cuMemPrefetchAsync(p, 4096, device, 0, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  int value = 0, list[2] = {};
  ASSERT_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096));
  EXPECT_EQ(1, value);
  ASSERT_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 4096));
  EXPECT_EQ(-1, value);
  ASSERT_OK(
      cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 4096));
  EXPECT_EQ(0, value);
  ASSERT_OK(cuMemRangeGetAttribute(list, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4096));
  EXPECT_EQ(0, list[0]);
  EXPECT_EQ(-2, list[1]);
  CUdeviceptr plain = 0;
  ASSERT_OK(cuMemAlloc(&plain, 16));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(plain, 16, device, 0, nullptr));
}

TEST_F(Objects, GreenContextsLimitTheCores) {
  CUdevResource all{}, one{}, rest{};
  ASSERT_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  unsigned groups = 1;
  ASSERT_OK(cuDevSmResourceSplitByCount(&one, &groups, &all, &rest, 0, 1));
  EXPECT_EQ(1u, groups);
  EXPECT_EQ(1u, one.sm.smCount);
  CUdevResourceDesc desc = nullptr;
  ASSERT_OK(cuDevResourceGenerateDesc(&desc, &one, 1));
  CUgreenCtx green = nullptr;
  ASSERT_OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxFromGreenCtx(&context, green));
  CUstream stream = nullptr;
  ASSERT_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CUgreenCtx found = nullptr;
  ASSERT_OK(cuStreamGetGreenCtx(stream, &found));
  EXPECT_EQ(green, found);
  ASSERT_OK(cuStreamSynchronize(stream));
  ASSERT_OK(cuGreenCtxDestroy(green));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
}

TEST_F(Objects, InvalidTensorMapsFail) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 1 << 16));
  CUtensorMap map;
  const cuuint64_t dims[] = {64, 64}, strides[] = {256};
  const cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
  const auto encode = [&](cuuint32_t rank, const cuuint32_t* shape, CUtensorMapSwizzle swizzle) {
    return cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, reinterpret_cast<void*>(p), dims, strides,
        shape, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_OK(encode(2, box, CU_TENSOR_MAP_SWIZZLE_64B));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            encode(2, box, CU_TENSOR_MAP_SWIZZLE_32B));  // 64 bytes do not fit
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, encode(6, box, CU_TENSOR_MAP_SWIZZLE_NONE));
  const cuuint32_t wide[] = {257, 1};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, encode(2, wide, CU_TENSOR_MAP_SWIZZLE_NONE));
  EXPECT_OK(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(p + 1024)));
}

TEST_F(Objects, LogContainsTheReason) {
  CUlogIterator start = 0;
  ASSERT_OK(cuLogsCurrent(&start, 0));
  static std::string heard;
  heard.clear();
  CUlogsCallbackHandle callback = nullptr;
  ASSERT_OK(cuLogsRegisterCallback(
      [](void*, CUlogLevel, char* text, std::size_t length) { heard.assign(text, length); },
      nullptr, &callback));
  CUmodule module = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "syntax error"));
  char text[500];
  std::size_t size = sizeof text;
  ASSERT_OK(cuLogsDumpToMemory(&start, text, &size, 0));
  EXPECT_NE(std::string::npos, std::string{text}.find("told to fail"));
  EXPECT_NE(std::string::npos, heard.find("told to fail"));
  ASSERT_OK(cuLogsUnregisterCallback(callback));
}

TEST_F(Objects, ManagedPoolMemoryIsPrefetched) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &props));
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&memory, 1 << 16, pool, nullptr));
  unsigned managed = 0;
  ASSERT_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
  EXPECT_EQ(1u, managed);
  CUmemLocation device{};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ASSERT_OK(cuMemPrefetchAsync(memory, 1 << 16, device, 0, nullptr));
  ASSERT_OK(cuStreamSynchronize(nullptr));
  CUmemLocation found[4] = {};
  ASSERT_OK(cuMemGetLocationInfo(memory, 1 << 16, 1 << 14, 0, found));
  for (const CUmemLocation& place : found) EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, place.type);
  CUmemLocation host{};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  ASSERT_OK(cuMemPrefetchAsync(memory, 1 << 16, host, 0, nullptr));
  ASSERT_OK(cuStreamSynchronize(nullptr));
  ASSERT_OK(cuMemGetLocationInfo(memory, 1 << 16, 1 << 16, 4096, found));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST, found[0].type);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetLocationInfo(memory, 1 << 16, 0, 0, found));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetLocationInfo(memory, 1 << 16, 1 << 17, 0, found));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetLocationInfo(memory, 1 << 20, 1 << 16, 0, found));
  ASSERT_OK(cuMemFreeAsync(memory, nullptr));
  ASSERT_OK(cuMemPoolDestroy(pool));
}

TEST_F(Objects, ProfilerCallsSucceedWithoutEffect) {
  ASSERT_OK(cuProfilerInitialize("config", "output", CU_OUT_CSV));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuProfilerInitialize(nullptr, "output", CU_OUT_CSV));
}

TEST_F(Objects, ViewsSelectLevelsAndLayers) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = 16;
  desc.Depth = 4;
  desc.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  desc.NumChannels = 1;
  desc.Flags = CUDA_ARRAY3D_LAYERED;
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &desc, 5));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = mipmap;
  CUDA_TEXTURE_DESC texture{};
  texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = CU_RES_VIEW_FORMAT_UINT_4X8;
  view.width = view.height = 16;
  view.depth = 4;
  view.firstMipmapLevel = 1, view.lastMipmapLevel = 3;
  view.firstLayer = 1, view.lastLayer = 2;
  CUtexObject object = 0;
  ASSERT_OK(cuTexObjectCreate(&object, &resource, &texture, &view));
  const auto& state = *reinterpret_cast<const cucpu::TextureObject*>(object);
  EXPECT_EQ(8u, state.width);
  EXPECT_EQ(3u, state.level_count);
  EXPECT_EQ(2u, state.layers);
  EXPECT_EQ(4u, state.channels);
  ASSERT_OK(cuTexObjectDestroy(object));
  view.lastLayer = 4;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &resource, &texture, &view));
  view.lastLayer = 2;
  view.lastMipmapLevel = 5;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &resource, &texture, &view));
  view.lastMipmapLevel = 3;
  view.format = CU_RES_VIEW_FORMAT_FLOAT_2X32;  // elements of another size
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &resource, &texture, &view));
  view.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1;
  view.width = view.height = 64;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuTexObjectCreate(&object, &resource, &texture, &view));
  texture.flags = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuTexObjectCreate(&object, &resource, &texture,
                              nullptr));  // mipmaps need normalized coordinates
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
}

TEST_F(Objects, WideTensorMapsAreEncoded) {
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 1 << 16));
  CUtensorMap map;
  const cuuint64_t dims[] = {64, 16, 8, 2}, strides[] = {128, 2048, 16384};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  const auto encode = [&](cuuint32_t rank, CUtensorMapIm2ColWideMode mode) {
    return cuTensorMapEncodeIm2colWide(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, reinterpret_cast<void*>(memory), dims, strides,
        -1, -1, 64, 32, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, mode, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_OK(encode(4, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W));
  EXPECT_OK(encode(4, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, encode(2, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, encode(4, static_cast<CUtensorMapIm2ColWideMode>(2)));
  ASSERT_OK(cuMemFree(memory));
}

}  // namespace
