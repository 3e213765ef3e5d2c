// SPDX-License-Identifier: Apache-2.0
// Launches of the first CUDA versions, and the cooperative launch on several devices.
#include <atomic>
#include <cstdlib>

#include "support.hpp"

namespace {

class LegacyLaunch : public DriverTest {};

TEST_F(LegacyLaunch, LaunchRunsWithParametersSetBefore) {
  unsigned* sum = words(1);
  const CUfunction add = kernel("add");
  CUdeviceptr at = address(sum);
  ASSERT_OK(cuFuncSetBlockShape(add, 1, 1, 1));
  ASSERT_OK(cuFuncSetSharedSize(add, 0));
  ASSERT_OK(cuParamSetSize(add, 12));
  ASSERT_OK(cuParamSetv(add, 0, &at, sizeof at));
  ASSERT_OK(cuParamSeti(add, 8, 5));
  ASSERT_OK(cuLaunch(add));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(5u, *sum);
  ASSERT_OK(cuLaunchGrid(add, 3, 2));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(35u, *sum);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuParamSetf(add, 8, 0.0f));
  ASSERT_OK(cuLaunchGridAsync(add, 1, 1, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(35u, *sum);
  ASSERT_OK(cuStreamDestroy(stream));
}

TEST_F(LegacyLaunch, InvalidParametersFail) {
  const CUfunction add = kernel("add");
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(add, 0, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuParamSetSize(add, 1 << 20));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuParamSeti(add, -1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuParamSetv(add, 0, nullptr, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(add, 0, 1));
  ASSERT_OK(cuParamSetSize(add, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunch(add));  // arguments are missing
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuLaunch(reinterpret_cast<CUfunction>(64)));
}

TEST(CooperativeLaunch, RunsOnSeveralDevicesAfterTheWorkOfAll) {
  NEEDS_FRESH_PROCESS();
  setenv("CUCORE_CPU_DEVICES", "3", 1);
  ASSERT_OK(cuInit(0));
  constexpr unsigned kDevices = 3;
  CUcontext contexts[kDevices];
  CUstream streams[kDevices];
  CUfunction functions[kDevices];
  unsigned* log = nullptr;
  CUfunction spin = nullptr;
  unsigned* gate = nullptr;
  for (unsigned i = 0; i < kDevices; ++i) {
    ASSERT_OK(cuDevicePrimaryCtxRetain(&contexts[i], static_cast<CUdevice>(i)));
    ASSERT_OK(cuCtxSetCurrent(contexts[i]));
    CUmodule module = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, kKernels));
    ASSERT_OK(cuModuleGetFunction(&functions[i], module, "add"));
    if (i == 1) {
      ASSERT_OK(cuModuleGetFunction(&spin, module, "spin"));
    }
    ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    if (i == 0) {
      ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&log), 64, CU_MEMHOSTALLOC_PORTABLE));
      ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&gate), 64, CU_MEMHOSTALLOC_PORTABLE));
    }
  }
  ASSERT_OK(cuCtxSetCurrent(contexts[1]));
  void* wait[] = {&gate};
  ASSERT_OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[1], wait, nullptr));
  unsigned amount = 1;
  void* args[] = {&log, &amount};
  CUDA_LAUNCH_PARAMS list[kDevices];
  for (unsigned i = 0; i < kDevices; ++i)
    list[i] = {functions[i], 1, 1, 1, 1, 1, 1, 0, streams[i], args};
  ASSERT_OK(cuLaunchCooperativeKernelMultiDevice(list, kDevices, 0));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[0]));  // device 1 is still busy
  EXPECT_EQ(0u, *static_cast<volatile unsigned*>(log));
  std::atomic_ref{*static_cast<unsigned*>(gate)} = 1u;
  for (CUstream stream : streams) ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(3u, *log);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 0, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, kDevices, 8));
  list[1].gridDimX = 2;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, kDevices, 0));
  list[1] = list[0];
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuLaunchCooperativeKernelMultiDevice(list, kDevices, 0));
}

}  // namespace
