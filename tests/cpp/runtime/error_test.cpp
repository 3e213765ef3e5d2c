// SPDX-License-Identifier: Apache-2.0
// error_test.cpp: error names and the last error of a thread.
#include <gtest/gtest.h>

#include <thread>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeError, ErrorNamesNeedNoDriver) {
  EXPECT_STREQ(rt.cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(rt.cudaGetErrorName(static_cast<cudaError_t>(98765)), "unrecognized error code");
}

TEST(RuntimeError, LastErrorIsKeptPerThreadUntilRead) {
  rt.cudaGetLastError();
  EXPECT_EQ(rt.cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(rt.cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(rt.cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(rt.cudaGetLastError(), cudaSuccess);
}

}  // namespace
