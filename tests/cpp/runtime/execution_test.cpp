// SPDX-License-Identifier: Apache-2.0
// execution_test.cpp: execution contexts.
#include <gtest/gtest.h>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeExecutionContext, PrimaryExecutionContextIsUniqueAndCreatesStreams) {
  cudaExecutionContext_t first = nullptr, second = nullptr;
  ASSERT_EQ(rt.cudaDeviceGetExecutionCtx(&first, 0), cudaSuccess);
  ASSERT_EQ(rt.cudaDeviceGetExecutionCtx(&second, 0), cudaSuccess);
  EXPECT_EQ(first, second);
  int device = -1;
  EXPECT_EQ(rt.cudaExecutionCtxGetDevice(&device, first), cudaSuccess);
  EXPECT_EQ(device, 0);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(rt.cudaExecutionCtxStreamCreate(&stream, first, 0, 0), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaExecutionCtxDestroy(first), cudaErrorInvalidValue);
  int not_a_context = 0;
  EXPECT_EQ(rt.cudaExecutionCtxGetDevice(&device,
                                         reinterpret_cast<cudaExecutionContext_t>(&not_a_context)),
            cudaErrorInvalidResourceHandle);
  rt.cudaGetLastError();
}

}  // namespace
