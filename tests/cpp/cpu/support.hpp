// SPDX-License-Identifier: Apache-2.0
// Fixtures of the driver's C API tests: a context per test, and the kernels of the fake engine.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "cucore/abi/driver.h"

#define ASSERT_OK(call) ASSERT_EQ(CUDA_SUCCESS, (call))
#define EXPECT_OK(call) EXPECT_EQ(CUDA_SUCCESS, (call))

/// For tests that fork a process which initializes the driver: ctest runs each test in its own
/// process.
#define NEEDS_FRESH_PROCESS()                                                    \
  if (int devices = 0; cuDeviceGetCount(&devices) != CUDA_ERROR_NOT_INITIALIZED) \
  GTEST_SKIP() << "the driver is in use in this process; run this test alone"

inline constexpr char kKernels[] = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .global .u32 table[16];
.visible .global .texref picture;
.visible .global .surfref canvas;
.visible .entry noop() { ret; }
.visible .entry relaunch(.param .u64 p, .param .u64 exec, .param .u64 how) { ret; }
.visible .entry add(.param .u64 p, .param .u32 n) { ret; }
.visible .entry store(.param .u64 p, .param .u32 v) { ret; }
.visible .entry append(.param .u64 log, .param .u32 v) { ret; }
.visible .entry spin(.param .u64 flag) { ret; }
.visible .entry crowd(.param .u64 counts) { ret; }
.visible .entry fault(.param .u32 code) { ret; }
.visible .entry bounded() { ret; }
.visible .entry countdown(.param .u64 p, .param .u64 condition) { ret; }
)";

/// A created context per test, destroyed afterwards, so that errors of one test do not affect the
/// next.
class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuCtxCreate(&context_, nullptr, 0, 0));
  }
  void TearDown() override {
    EXPECT_OK(cuCtxDestroy(context_));
    CUcontext left = nullptr;
    EXPECT_OK(cuCtxGetCurrent(&left));
    EXPECT_EQ(nullptr, left);
  }
  CUfunction kernel(const char* name) {
    if (!module_) {
      EXPECT_OK(cuModuleLoadData(&module_, kKernels));
    }
    CUfunction function = nullptr;
    EXPECT_OK(cuModuleGetFunction(&function, module_, name));
    return function;
  }
  template <class... Args>
  CUresult launch(CUfunction function, unsigned blocks, CUstream stream, Args... args) {
    void* params[] = {&args..., nullptr};
    return cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  /// Zeroed memory that host and kernels can access.
  unsigned* words(std::size_t count) {
    void* p = nullptr;
    EXPECT_OK(cuMemAllocHost(&p, count * sizeof(unsigned)));
    return static_cast<unsigned*>(p);
  }
  static CUdeviceptr address(void* p) { return reinterpret_cast<CUdeviceptr>(p); }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};
