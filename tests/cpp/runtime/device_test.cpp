// SPDX-License-Identifier: Apache-2.0
// device_test.cpp: the current device of a thread and device properties.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "cucore/driver.hpp"
#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeDevice, FirstCallOfAThreadMakesThePrimaryContextCurrent) {
  std::thread([] {
    CUcontext before = nullptr, after = nullptr;
    ASSERT_EQ(cucore::driver().cuCtxGetCurrent(&before), CUDA_SUCCESS);
    EXPECT_EQ(before, nullptr);
    ASSERT_EQ(rt.cudaFree(nullptr), cudaSuccess);
    ASSERT_EQ(cucore::driver().cuCtxGetCurrent(&after), CUDA_SUCCESS);
    EXPECT_NE(after, nullptr);
  }).join();
}

TEST(RuntimeDevice, FirstValidDeviceIsTheDefaultOfAThread) {
  std::thread([] {
    int list[] = {0}, wrong[] = {4711}, device = -1;
    EXPECT_EQ(rt.cudaSetValidDevices(wrong, 1), cudaErrorInvalidDevice);
    EXPECT_EQ(rt.cudaSetValidDevices(list, 1), cudaSuccess);
    EXPECT_EQ(rt.cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
}

TEST(RuntimeDevice, PropertiesEqualAttributes) {
  cudaDeviceProp prop{};
  ASSERT_EQ(rt.cudaGetDeviceProperties(&prop, 0), cudaSuccess);
  int warp = 0;
  ASSERT_EQ(rt.cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0), cudaSuccess);
  EXPECT_EQ(prop.warpSize, warp);
  EXPECT_GT(std::strlen(prop.name), 0u);
  EXPECT_GE(prop.maxGridSize[0], 65535);
}

}  // namespace
