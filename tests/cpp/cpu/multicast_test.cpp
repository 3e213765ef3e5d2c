// SPDX-License-Identifier: Apache-2.0
// Multicast objects of several devices (CUCORE_CPU_DEVICES), and the clique of these devices.
#include "cpu/device/multicast.hpp"

#include <cstdlib>
#include <cstring>

#include "support.hpp"

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;

void start(const char* devices) {
  setenv("CUCORE_CPU_DEVICES", devices, 1);
  ASSERT_OK(cuInit(0));
}

CUmemGenericAllocationHandle memory_of_device(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  CUmemGenericAllocationHandle memory = 0;
  EXPECT_OK(cuMemCreate(&memory, kUnit, &prop, 0));
  return memory;
}

CUdeviceptr map(CUmemGenericAllocationHandle memory, int device) {
  CUdeviceptr range = 0;
  EXPECT_OK(cuMemAddressReserve(&range, kUnit, 0, 0, 0));
  EXPECT_OK(cuMemMap(range, kUnit, 0, memory, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_OK(cuMemSetAccess(range, kUnit, &access, 1));
  return range;
}

TEST(Multicast, AddressAccessesMemoryOfEveryDevice) {
  NEEDS_FRESH_PROCESS();
  start("2");
  CUcontext context = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  CUmulticastObjectProp prop{};
  prop.numDevices = 2;
  std::size_t granularity = 0;
  ASSERT_OK(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(kUnit, granularity);
  prop.size = granularity;
  CUmemGenericAllocationHandle multicast = 0;
  ASSERT_OK(cuMulticastCreate(&multicast, &prop));
  const CUmemGenericAllocationHandle first = memory_of_device(0), second = memory_of_device(1);
  ASSERT_OK(cuMulticastAddDevice(multicast, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(multicast, 0));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE,
            cuMulticastBindMem(multicast, 0, first, 0, kUnit, 0));  // a device is missing
  ASSERT_OK(cuMulticastAddDevice(multicast, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuMulticastAddDevice(multicast, 2));
  ASSERT_OK(cuMulticastBindMem(multicast, 0, first, 0, kUnit, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMulticastBindMem(multicast, 0, first, 0, kUnit, 0));  // bound already
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(multicast, kUnit, second, 0, kUnit, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuMulticastBindMem_v2(multicast, 0, 0, second, 0, kUnit, 0));
  const CUdeviceptr one = map(first, 0), two = map(second, 1);
  ASSERT_OK(cuMulticastBindAddr_v2(multicast, 1, 0, two, kUnit, 0));
  const CUdeviceptr all = map(multicast, 0);

  std::uintptr_t copies[4] = {};
  ASSERT_EQ(2u, cucpu::driver::multicast_copies(all + 64, copies, 4));
  for (const std::uintptr_t copy : copies)
    if (copy) *reinterpret_cast<unsigned*>(copy) = 31;
  for (const CUdeviceptr range : {one, two}) {
    unsigned value = 0;
    ASSERT_OK(cuMemcpyDtoH(&value, range + 64, sizeof value));
    EXPECT_EQ(31u, value);
  }
  EXPECT_EQ(0u, cucpu::driver::multicast_copies(one, copies, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind(multicast, 1, kUnit, kUnit));
  ASSERT_OK(cuMulticastUnbind(multicast, 1, 0, kUnit));
  EXPECT_EQ(1u, cucpu::driver::multicast_copies(all, copies, 4));
  ASSERT_OK(cuMulticastUnbind(multicast, 0, 0, kUnit));
  ASSERT_OK(cuMulticastBindAddr(multicast, 0, one, kUnit, 0));
  ASSERT_OK(cuMemUnmap(all, kUnit));
  EXPECT_EQ(0u, cucpu::driver::multicast_copies(all, copies, 4));
  ASSERT_OK(cuMemRelease(multicast));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemRelease(multicast));
}

TEST(Multicast, UnknownDevicesFail) {
  NEEDS_FRESH_PROCESS();
  start("2");
  CUmulticastObjectProp prop{};
  prop.numDevices = 3;
  prop.size = kUnit;
  CUmemGenericAllocationHandle multicast = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&multicast, &prop));
  prop.numDevices = 2;
  prop.size = kUnit + 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&multicast, &prop));
  prop.size = kUnit;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&multicast, &prop));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(12345, 0));
}

TEST(Cliques, AllDevicesFormOneClique) {
  NEEDS_FRESH_PROCESS();
  start("2");
  std::size_t count = 0;
  ASSERT_OK(cuDeviceGetCliqueCount(&count, 0));
  EXPECT_EQ(2u, count);
  CUcliqueInfo a[4], b[4];
  count = 4;
  ASSERT_OK(cuDeviceGetCliqueInfo(a, &count, 0));
  EXPECT_EQ(2u, count);
  ASSERT_OK(cuDeviceGetCliqueInfo(b, &count, 1));
  EXPECT_EQ(0, std::memcmp(a, b, 2 * sizeof a[0]));
  EXPECT_EQ(CU_CLIQUE_TYPE_MULTICAST_POINTER, a[1].type);
  CUuuid first, second;
  ASSERT_OK(cuDeviceGetFabricClusterUuid(&first, 0));
  ASSERT_OK(cuDeviceGetFabricClusterUuid(&second, 1));
  EXPECT_EQ(0, std::memcmp(&first, &second, sizeof first));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetCliqueCount(&count, 7));
}

TEST(Cliques, SingleDeviceIsInNoClique) {
  NEEDS_FRESH_PROCESS();
  start("1");
  std::size_t count = 9;
  ASSERT_OK(cuDeviceGetCliqueCount(&count, 0));
  EXPECT_EQ(0u, count);
  CUuuid uuid;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetFabricClusterUuid(&uuid, 0));
}

}  // namespace
