// SPDX-License-Identifier: Apache-2.0
// Allocation, copies, fills and pointer attributes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>

#include "support.hpp"

namespace {

class Memory : public DriverTest {};

TEST_F(Memory, BytesRoundTrip) {
  std::vector<int> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 7);
  CUdeviceptr a = 0, b = 0;
  ASSERT_OK(cuMemAlloc(&a, 4000));
  ASSERT_OK(cuMemAlloc(&b, 4000));
  EXPECT_EQ(0u, a % 256);
  EXPECT_EQ(0u, b % 256);
  ASSERT_OK(cuMemcpyHtoD(a, in.data(), 4000));
  ASSERT_OK(cuMemcpyDtoD(b, a, 4000));
  ASSERT_OK(cuMemcpyDtoH(out.data(), b, 4000));
  EXPECT_EQ(in, out);
  ASSERT_OK(cuMemFree(a));
  ASSERT_OK(cuMemFree(b));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
  EXPECT_OK(cuMemFree(0));
}

TEST_F(Memory, RangesOutsideAnAllocationFail) {
  char host[64] = {};
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 32));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, host, 33));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p + 16, host, 17));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0x1000, host, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, host, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 0, 9));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p + 2, 0, 1));
  EXPECT_OK(cuMemcpyHtoD(p, host, 0));
  ASSERT_OK(cuMemFree(p));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host, p, 4));
}

TEST_F(Memory, OversizedAllocationFailsWithOutOfMemory) {
  std::size_t free = 0, total = 0, after = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, total + 1));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, SIZE_MAX));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(free, after);
  ASSERT_OK(cuMemAlloc(&p, 1 << 20));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(free - (1 << 20), after);
  ASSERT_OK(cuMemFree(p));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(free, after);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
}

TEST_F(Memory, ManySmallAllocationsDoNotOverlap) {
  constexpr int kCount = 20000;  // more than get guard pages
  std::vector<CUdeviceptr> all(kCount);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_OK(cuMemAlloc(&all[i], 64));
    ASSERT_OK(cuMemsetD32(all[i], static_cast<unsigned>(i), 16));
  }
  for (int i = 0; i < kCount; ++i) {
    unsigned value = 0;
    ASSERT_OK(cuMemcpyDtoH(&value, all[i] + 60, 4));
    ASSERT_EQ(static_cast<unsigned>(i), value);
  }
  for (CUdeviceptr p : all) ASSERT_OK(cuMemFree(p));
}

TEST_F(Memory, FillsOfEveryElementSizeSucceed) {
  CUdeviceptr p = 0;
  std::size_t pitch = 0;
  ASSERT_OK(cuMemAllocPitch(&p, &pitch, 40, 3, 4));
  EXPECT_GE(pitch, 40u);
  ASSERT_OK(cuMemsetD8(p, 0, pitch * 3));
  ASSERT_OK(cuMemsetD2D16(p, pitch, 0xabcd, 10, 3));
  std::vector<std::uint16_t> rows(pitch / 2 * 3);
  ASSERT_OK(cuMemcpyDtoH(rows.data(), p, pitch * 3));
  for (std::size_t y = 0; y < 3; ++y) {
    EXPECT_EQ(0xabcd, rows[y * pitch / 2]);
    EXPECT_EQ(0xabcd, rows[y * pitch / 2 + 9]);
    EXPECT_EQ(0, rows[y * pitch / 2 + 10]);
  }
  ASSERT_OK(cuMemFree(p));
}

TEST_F(Memory, BoxCopiesBetweenPitchesSucceed) {
  constexpr std::size_t kWidth = 12, kHeight = 5, kDepth = 3;
  std::vector<unsigned char> in(kWidth * kHeight * kDepth), out(in.size());
  std::iota(in.begin(), in.end(), 0);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 64 * 8 * kDepth));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = kWidth;
  copy.srcHeight = kHeight;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p;
  copy.dstXInBytes = 4;
  copy.dstY = 2;
  copy.dstPitch = 64;
  copy.dstHeight = 8;
  copy.WidthInBytes = kWidth;
  copy.Height = kHeight;
  copy.Depth = kDepth;
  ASSERT_OK(cuMemcpy3D(&copy));
  CUDA_MEMCPY3D back{};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = p;
  back.srcXInBytes = 4;
  back.srcY = 2;
  back.srcPitch = 64;
  back.srcHeight = 8;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = kWidth;
  back.dstHeight = kHeight;
  back.WidthInBytes = kWidth;
  back.Height = kHeight;
  back.Depth = kDepth;
  ASSERT_OK(cuMemcpy3D(&back));
  EXPECT_EQ(in, out);
  back.srcPitch = 8;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&back));
  back.srcPitch = 64;
  back.srcZ = 1;  // out of bounds
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&back));
}

TEST_F(Memory, PointerAttributesAreReported) {
  CUdeviceptr device = 0, managed = 0;
  void* host = nullptr;
  ASSERT_OK(cuMemAlloc(&device, 1000));
  ASSERT_OK(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
  ASSERT_OK(cuMemHostAlloc(&host, 1000, CU_MEMHOSTALLOC_PORTABLE));
  CUmemorytype type{};
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 10));
  EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(host)));
  EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
  unsigned is_managed = 0;
  EXPECT_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  EXPECT_EQ(1u, is_managed);
  CUcontext owner = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device));
  EXPECT_EQ(context_, owner);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_OK(cuMemGetAddressRange(&base, &size, device + 999));
  EXPECT_EQ(device, base);
  EXPECT_EQ(1000u, size);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, device + 1000));
  int local = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(&local)));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  int ordinal = 5;
  type = CU_MEMORYTYPE_DEVICE;
  void* data[] = {&type, &ordinal};
  EXPECT_OK(cuPointerGetAttributes(2, wanted, data, address(&local)));
  EXPECT_EQ(0, static_cast<int>(type));
  EXPECT_EQ(-2, ordinal);
}

TEST_F(Memory, SecondRegistrationOfHostMemoryFails) {
  std::vector<char> bytes(10000);
  ASSERT_OK(cuMemHostRegister(bytes.data(), bytes.size(), 0));
  EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(bytes.data() + 10, 10, 0));
  CUdeviceptr p = 0;
  EXPECT_OK(cuMemHostGetDevicePointer(&p, bytes.data() + 5, 0));
  EXPECT_EQ(address(bytes.data() + 5), p);
  ASSERT_OK(cuMemHostUnregister(bytes.data()));
  EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(bytes.data()));
}

TEST_F(Memory, RegistrationOfUnmappedMemoryFails) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* p = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, p);
  ASSERT_EQ(0, munmap(static_cast<char*>(p) + page, page));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, 3 * page, 0)) << "with a gap";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, page + 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, ~std::size_t{0}, 0));
  ASSERT_OK(cuMemHostRegister(p, page, 0));
  ASSERT_OK(cuMemHostUnregister(p));
  ASSERT_EQ(0, munmap(p, 3 * page));
}

TEST_F(Memory, FreeWaitsForWorkOfItsContext) {
  unsigned* flag = words(1);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 4096));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(launch(kernel("spin"), 1, stream, address(flag)));
  ASSERT_OK(launch(kernel("store"), 1, stream, p, 1u));
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  std::thread later{[&] { std::atomic_ref{* flag} = 1u; }};
  EXPECT_OK(cuMemFree(p)) << "from another context";
  later.join();
  ASSERT_OK(cuCtxDestroy(other));
  EXPECT_OK(cuStreamQuery(stream)) << "the kernel was over before its memory went";
}

TEST_F(Memory, FreeOfPoolMemoryDoesNotWait) {
  unsigned* flag = words(1);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 4096, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  ASSERT_OK(launch(kernel("spin"), 1, stream, address(flag)));
  EXPECT_OK(cuMemFree(p)) << "nothing that runs uses it";
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(stream));
}

TEST_F(Memory, DestroyedContextFreesItsMemory) {
  CUcontext other = nullptr;
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 1 << 20));
  ASSERT_OK(cuCtxDestroy(other));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  char c;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&c, p, 1));
}

}  // namespace
