// SPDX-License-Identifier: Apache-2.0
// array_test.cpp: arrays and channel descriptors.
#include <gtest/gtest.h>

#include <cstring>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeArray, UnsupportedChannelDescriptorReturnsInvalidValue) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc three{8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(rt.cudaMallocArray(&array, &three, 4, 4, 0), cudaErrorInvalidValue);
  const cudaChannelFormatDesc mixed{8, 16, 0, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(rt.cudaMallocArray(&array, &mixed, 4, 4, 0), cudaErrorInvalidValue);
  rt.cudaGetLastError();
}

TEST(RuntimeArray, ArrayInfoReturnsDescriptorExtentAndFlags) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc desc =
      rt.cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindFloat);
  ASSERT_EQ(rt.cudaMalloc3DArray(&array, &desc, {4, 3, 2}, 0), cudaSuccess);
  cudaChannelFormatDesc got{};
  cudaExtent extent{};
  unsigned flags = 1;
  ASSERT_EQ(rt.cudaArrayGetInfo(&got, &extent, &flags, array), cudaSuccess);
  EXPECT_EQ(std::memcmp(&got, &desc, sizeof got), 0);
  EXPECT_EQ(extent.width * 100 + extent.height * 10 + extent.depth, 432u);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(rt.cudaFreeArray(array), cudaSuccess);
}

}  // namespace
