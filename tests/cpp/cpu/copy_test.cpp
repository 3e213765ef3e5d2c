// SPDX-License-Identifier: Apache-2.0
// Copies and fills of every kind.
#include <numeric>

#include "support.hpp"

namespace {

class Copies : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuMemAlloc(&a_, 4096));
    ASSERT_OK(cuMemAlloc(&b_, 4096));
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  template <class T>
  std::vector<T> read(CUdeviceptr from, std::size_t count) {
    std::vector<T> out(count);
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_OK(cuMemcpyDtoH(out.data(), from, count * sizeof(T)));
    return out;
  }
  CUarray line(std::size_t width) {
    CUDA_ARRAY_DESCRIPTOR desc{width, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    CUarray array = nullptr;
    EXPECT_OK(cuArrayCreate(&array, &desc));
    return array;
  }
  CUdeviceptr a_ = 0, b_ = 0;
  CUstream stream_ = nullptr;
};
using Words = std::vector<unsigned>;

TEST_F(Copies, FillsOfEveryElementSizeSucceed) {
  ASSERT_OK(cuMemsetD16(a_, 0x1234, 4));
  EXPECT_EQ((Words{0x12341234, 0x12341234}), read<unsigned>(a_, 2));
  ASSERT_OK(cuMemsetD16Async(a_, 0x5678, 4, stream_));
  EXPECT_EQ((Words{0x56785678, 0x56785678}), read<unsigned>(a_, 2));
  ASSERT_OK(cuMemsetD8Async(a_, 0xab, 8, stream_));
  EXPECT_EQ((Words{0xabababab, 0xabababab}), read<unsigned>(a_, 2));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(a_ + 1, 0, 1));
  ASSERT_OK(cuMemsetD32(a_, 0, 1024));
  ASSERT_OK(cuMemsetD2D8(a_, 16, 1, 4, 2));
  ASSERT_OK(cuMemsetD2D8Async(a_ + 4, 16, 2, 4, 2, stream_));
  ASSERT_OK(cuMemsetD2D16Async(a_ + 8, 16, 3, 2, 2, stream_));
  ASSERT_OK(cuMemsetD2D32(a_ + 12, 16, 4, 1, 2));
  EXPECT_EQ((Words{0x01010101, 0x02020202, 0x00030003, 4, 0x01010101, 0x02020202, 0x00030003, 4}),
            read<unsigned>(a_, 8));
  ASSERT_OK(cuMemsetD2D32Async(a_, 16, 7, 4, 2, stream_));
  EXPECT_EQ(Words(8, 7), read<unsigned>(a_, 8));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMemsetD2D32(a_, 8, 0, 4, 2));  // the pitch is shorter than a row
}

TEST_F(Copies, CopiesBetweenArrayDeviceAndHostSucceed) {
  const CUarray x = line(16), y = line(16);
  Words host(16), back(16);
  std::iota(host.begin(), host.end(), 1u);
  ASSERT_OK(cuMemcpyHtoA(x, 0, host.data(), 64));
  ASSERT_OK(cuMemcpyAtoA(y, 0, x, 32, 32));
  ASSERT_OK(cuMemcpyAtoH(back.data(), y, 0, 32));
  EXPECT_EQ(9u, back[0]);
  ASSERT_OK(cuMemcpyAtoD(a_, x, 0, 64));
  EXPECT_EQ(host, read<unsigned>(a_, 16));
  ASSERT_OK(cuMemcpyDtoA(y, 0, a_, 64));
  ASSERT_OK(cuMemcpyAtoHAsync(back.data(), y, 0, 64, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(host, back);
  ASSERT_OK(cuMemcpyHtoAAsync(x, 4, host.data(), 4, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  ASSERT_OK(cuMemcpyAtoH(back.data(), x, 4, 4));
  EXPECT_EQ(1u, back[0]);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD(a_, x, 32, 64));
  CUDA_ARRAY_DESCRIPTOR desc{};
  ASSERT_OK(cuArrayGetDescriptor(&desc, x));
  EXPECT_EQ(16u, desc.Width);
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  ASSERT_OK(cuArrayGetMemoryRequirements(&needs, x, 0));
  EXPECT_GE(needs.size, 64u);
  CUarray plane = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuArrayGetPlane(&plane, x, 0));
  CUDA_ARRAY3D_DESCRIPTOR square{};
  square.Width = square.Height = 16;
  square.Format = CU_AD_FORMAT_FLOAT, square.NumChannels = 1;
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmap, &square, 3));
  ASSERT_OK(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0));
  EXPECT_GE(needs.size, 16u * 16 * 4 + 8 * 8 * 4 + 4 * 4 * 4);
}

TEST_F(Copies, BoxCopiesRunInStreamOrder) {
  Words host(64);
  std::iota(host.begin(), host.end(), 0u);
  CUDA_MEMCPY2D flat{};
  flat.srcMemoryType = CU_MEMORYTYPE_HOST, flat.srcHost = host.data(), flat.srcPitch = 32;
  flat.dstMemoryType = CU_MEMORYTYPE_DEVICE, flat.dstDevice = a_, flat.dstPitch = 16;
  flat.WidthInBytes = 16, flat.Height = 4;
  ASSERT_OK(cuMemcpy2DAsync(&flat, stream_));
  EXPECT_EQ((Words{0, 1, 2, 3, 8, 9, 10, 11}), read<unsigned>(a_, 8));
  flat.srcXInBytes = 4;
  ASSERT_OK(cuMemcpy2DUnaligned(&flat));
  EXPECT_EQ((Words{1, 2, 3, 4}), read<unsigned>(a_, 4));
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE, box.srcDevice = a_, box.srcPitch = 16,
  box.srcHeight = 2;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE, box.dstDevice = b_, box.dstPitch = 16,
  box.dstHeight = 2;
  box.WidthInBytes = 16, box.Height = 2, box.Depth = 2;
  ASSERT_OK(cuMemcpy3DAsync(&box, stream_));
  EXPECT_EQ(read<unsigned>(a_, 16), read<unsigned>(b_, 16));
  ASSERT_OK(cuMemsetD32(b_, 5, 4));
  ASSERT_OK(cuMemcpyDtoDAsync(a_, b_, 16, stream_));
  EXPECT_EQ(Words(4, 5), read<unsigned>(a_, 4));
}

TEST_F(Copies, BatchCopiesSucceed) {
  ASSERT_OK(cuMemsetD32(a_, 3, 4));
  CUdeviceptr to[] = {b_, b_ + 64}, from[] = {a_, a_ + 4};
  std::size_t sizes[] = {8, 4}, starts[] = {0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, starts, 1, stream_));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph)) << "the capture goes on without it";
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, starts, 1, stream_));
  EXPECT_EQ((Words{3, 3}), read<unsigned>(b_, 2));
  EXPECT_EQ((Words{3}), read<unsigned>(b_ + 64, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(to, from, sizes, 0, &attributes, starts, 1, stream_));
  ASSERT_OK(cuMemcpyWithAttributesAsync(b_ + 128, a_, 16, &attributes, stream_));
  EXPECT_EQ(Words(4, 3), read<unsigned>(b_ + 128, 4));
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = a_;
  op.dst.op.ptr.ptr = b_ + 256;
  op.extent = {16, 1, 1};
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  ASSERT_OK(cuMemcpy3DBatchAsync(1, &op, 0, stream_));
  EXPECT_EQ(Words(4, 3), read<unsigned>(b_ + 256, 4));
  op.dst.op.ptr.ptr = b_ + 512;
  ASSERT_OK(cuMemcpy3DWithAttributesAsync(&op, 0, stream_));
  EXPECT_EQ(Words(4, 3), read<unsigned>(b_ + 512, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 1, stream_));
}

TEST_F(Copies, BatchCopiesReadSourcesInTheirAccessOrder) {
  unsigned* flag = words(1);
  unsigned* from = words(4);  // pinned, so a copy in stream order reads it late
  from[0] = 1, from[1] = 2, from[2] = 3, from[3] = 4;
  ASSERT_OK(cuMemsetD32(b_, 0, 64));
  ASSERT_OK(launch(kernel("spin"), 1, stream_, flag));
  const auto address = [&](int i) { return reinterpret_cast<CUdeviceptr>(from + i); };
  CUdeviceptr to[] = {b_, b_ + 4, b_ + 8}, sources[] = {address(0), address(1), address(2)};
  std::size_t sizes[] = {4, 4, 4}, starts[] = {0, 1};
  CUmemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  ASSERT_OK(cuMemcpyBatchAsync(to, sources, sizes, 3, attributes, starts, 2, stream_));
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = address(3);
  op.dst.op.ptr.ptr = b_ + 12;
  op.extent = {4, 1, 1};
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  ASSERT_OK(cuMemcpy3DBatchAsync(1, &op, 0, stream_));
  for (int i = 0; i < 4; ++i) from[i] = 77;
  std::atomic_ref{* flag} = 1u;
  EXPECT_EQ((Words{77, 2, 3, 4}), read<unsigned>(b_, 4));
  starts[1] = 3;  // no such copy
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(to, sources, sizes, 3, attributes, starts, 2, stream_));
}

TEST_F(Copies, BatchPrefetchesOfManagedMemorySucceed) {
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAllocManaged(&memory, 8192, CU_MEM_ATTACH_GLOBAL));
  CUdeviceptr list[] = {memory};
  std::size_t sizes[] = {8192}, starts[] = {0};
  CUmemLocation device{};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ASSERT_OK(cuMemPrefetchBatchAsync(list, sizes, 1, &device, starts, 1, 0, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  int where = -9, mostly = -9;
  void* data[] = {&where, &mostly};
  std::size_t bytes[] = {4, 4};
  CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                        CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
  ASSERT_OK(cuMemRangeGetAttributes(data, bytes, attributes, 2, memory, 8192));
  EXPECT_EQ(0, where);
  EXPECT_EQ(0, mostly);
  ASSERT_OK(cuMemDiscardBatchAsync(list, sizes, 1, 0, stream_));
  ASSERT_OK(cuMemDiscardAndPrefetchBatchAsync(list, sizes, 1, &device, starts, 1, 0, stream_));
  ASSERT_OK(cuStreamAttachMemAsync(stream_, memory, 0, CU_MEM_ATTACH_SINGLE));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(list, sizes, 0, 0, stream_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(stream_, a_, 0, CU_MEM_ATTACH_SINGLE));
  ASSERT_OK(cuStreamSynchronize(stream_));
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(Copies, HostMemoryPoolsAndHandlesReportAttributes) {
  void* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
  unsigned flags = 0;
  ASSERT_OK(cuMemHostGetFlags(&flags, host));
  EXPECT_TRUE(flags & CU_MEMHOSTALLOC_PORTABLE);
  ASSERT_OK(cuMemFreeHost(host));
  unsigned on = 1;
  ASSERT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a_));
  CUmemoryPool pool = nullptr, read_pool = nullptr;
  CUmemLocation device{};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ASSERT_OK(cuMemGetDefaultMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  ASSERT_OK(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  ASSERT_OK(cuMemGetMemPool(&read_pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(pool, read_pool);
  CUmemAccessDesc access{};
  access.location = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_OK(cuMemPoolSetAccess(pool, &access, 1));
  CUmemAccess_flags rights{};
  ASSERT_OK(cuMemPoolGetAccess(&rights, pool, &device));
  EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights);
  constexpr std::size_t kUnit = std::size_t{2} << 20;
  CUmemAllocationProp prop{}, read_prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = device;
  CUmemGenericAllocationHandle memory = 0, again = 0;
  ASSERT_OK(cuMemCreate(&memory, kUnit, &prop, 0));
  ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&read_prop, memory));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, read_prop.location.type);
  CUdeviceptr range = 0;
  ASSERT_OK(cuMemAddressReserve(&range, kUnit, 0, 0, 0));
  ASSERT_OK(cuMemMap(range, kUnit, 0, memory, 0));
  ASSERT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)));
  ASSERT_OK(cuMemRelease(again));
  ASSERT_OK(cuMemUnmap(range, kUnit));
  ASSERT_OK(cuMemRelease(memory));
  ASSERT_OK(cuMemAddressFree(range, kUnit));
}

}  // namespace
