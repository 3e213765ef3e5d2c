// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and the thread's stack of them.
#include <cstring>
#include <string>
#include <thread>

#include "support.hpp"

namespace {

TEST(Driver, CallsBeforeInitFail) {
  // ctest runs each test in its own process; in one process another test may have initialized the
  // driver.
  int count = -1;
  const CUresult result = cuDeviceGetCount(&count);
  EXPECT_TRUE(result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_SUCCESS);
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_EQ(13040, version);
}

TEST(Driver, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  EXPECT_OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ("CUDA_ERROR_ILLEGAL_ADDRESS", text);
  EXPECT_OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ("an illegal memory access was encountered", text);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(static_cast<CUresult>(12345), &text));
  EXPECT_EQ(nullptr, text);
}

TEST(Driver, EntryPointsAreFoundByNameAndVersion) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_OK(cuGetProcAddress("cuMemAlloc", &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  EXPECT_EQ(reinterpret_cast<void*>(&cuMemAlloc), address);
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, status);
  void* per_thread = nullptr;
  EXPECT_OK(cuGetProcAddress("cuLaunchKernel", &per_thread, 12000,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  EXPECT_NE(reinterpret_cast<void*>(&cuLaunchKernel), per_thread);
  EXPECT_OK(cuGetProcAddress("cuNoSuchThing", &address, 12000, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
  EXPECT_OK(cuGetProcAddress("cuMemAllocAsync", &address, 10000, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
  EXPECT_EQ(nullptr, address);
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_OK(cuGetProcAddress("cuMemAlloc", &address, version, 0, &status));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuGetProcAddress("cuMemAlloc", &address, version + 10, 0, &status));
  EXPECT_OK(cuGetProcAddress("cuFuncSetAttribute", &address, 2000, 0, nullptr));
  EXPECT_EQ(nullptr, address);
}

TEST(Device, AttributesAreConsistent) {
  ASSERT_OK(cuInit(0));
  int count = 0;
  ASSERT_OK(cuDeviceGetCount(&count));
  ASSERT_GE(count, 1);
  CUdevice device = -1;
  ASSERT_OK(cuDeviceGet(&device, 0));
  char name[256];
  ASSERT_OK(cuDeviceGetName(name, sizeof name, device));
  EXPECT_TRUE(std::string{name}.starts_with("cucore CPU device ("));
  int major = 0, warp = 0;
  EXPECT_OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  EXPECT_OK(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  EXPECT_EQ(9, major);
  EXPECT_EQ(32, warp);
  for (int id = 1; id < CU_DEVICE_ATTRIBUTE_MAX; ++id) {
    int value = 0;
    EXPECT_OK(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(id), device)) << id;
  }
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_MAX, device));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, sizeof name, -1));
  char bus[32];
  ASSERT_OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  CUdevice found = -1;
  ASSERT_OK(cuDeviceGetByPCIBusId(&found, bus));
  EXPECT_EQ(0, found);
  CUuuid first, second;
  ASSERT_OK(cuDeviceGetUuid(&first, 0));
  ASSERT_OK(cuDeviceGetUuid(&second, 0));
  EXPECT_EQ(0, std::memcmp(&first, &second, sizeof first));
}

TEST(Context, StackIsPerThread) {
  ASSERT_OK(cuInit(0));
  CUcontext a = nullptr, b = nullptr, top = nullptr;
  ASSERT_OK(cuCtxCreate(&a, nullptr, 0, 0));
  ASSERT_OK(cuCtxCreate(&b, nullptr, 0, 0));
  ASSERT_OK(cuCtxGetCurrent(&top));
  EXPECT_EQ(b, top);
  std::thread{[&] {
    CUcontext other = a;
    EXPECT_OK(cuCtxGetCurrent(&other));
    EXPECT_EQ(nullptr, other);
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&other));
  }}.join();
  ASSERT_OK(cuCtxPopCurrent(&top));
  EXPECT_EQ(b, top);
  ASSERT_OK(cuCtxGetCurrent(&top));
  EXPECT_EQ(a, top);
  ASSERT_OK(cuCtxDestroy(b));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(b));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(b));
  ASSERT_OK(cuCtxDestroy(a));
  ASSERT_OK(cuCtxGetCurrent(&top));
  EXPECT_EQ(nullptr, top);
}

TEST(Context, DestructionByAnotherThreadIsReported) {
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxCreate(&context, nullptr, 0, 0));
  std::thread{[&] { EXPECT_OK(cuCtxDestroy(context)); }}.join();
  EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
  ASSERT_OK(cuCtxSetCurrent(nullptr));
}

TEST(PrimaryContext, IsActiveWhileRetained) {
  ASSERT_OK(cuInit(0));
  unsigned flags = 1;
  int active = 1;
  ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(0, active);
  CUcontext first = nullptr, second = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&first, 0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_EQ(first, second);
  ASSERT_OK(cuCtxSetCurrent(first));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 100));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  ASSERT_OK(cuMemsetD8(p, 1, 100));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(first));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemsetD8(p, 1, 100));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
  ASSERT_OK(cuCtxSetCurrent(nullptr));
}

TEST_F(DriverTest, InvalidHandlesFail) {
  int local = 0;
  CUstream streams[] = {reinterpret_cast<CUstream>(&local),
                        reinterpret_cast<CUstream>(0x123456789abcULL),
                        reinterpret_cast<CUstream>(context_)};
  for (CUstream stream : streams) EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(reinterpret_cast<CUevent>(&local)));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(nullptr));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  ASSERT_OK(cuStreamDestroy(stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
}

}  // namespace
