// SPDX-License-Identifier: Apache-2.0
// Copies between linear memory and arrays: what their parameters say, and how they are changed.
#include "cucore/copy.hpp"

#include <gtest/gtest.h>

namespace {
using namespace cucore;

const CUarray kArray = reinterpret_cast<CUarray>(0x40);

TEST(Copy, OfOneRowIsPlain) {
  const CUDA_MEMCPY3D copy = copy_params({0x1000}, {0x2000}, {64});
  EXPECT_EQ(64u, extent_of(copy).bytes());
  EXPECT_EQ(0x1000u, destination_of(copy).ptr);
  EXPECT_EQ(0x2000u, source_of(copy).ptr);
  EXPECT_EQ(CU_MEMORYTYPE_UNIFIED, copy.dstMemoryType);
  EXPECT_EQ(64u, copy.dstPitch);
}

TEST(Copy, OfAnArrayPacksTheRowsOfTheOtherEnd) {
  const CUDA_MEMCPY3D copy = copy_params({0, kArray}, {0x2000}, {16, 3, 2});
  EXPECT_EQ(CU_MEMORYTYPE_ARRAY, copy.dstMemoryType);
  EXPECT_EQ(kArray, destination_of(copy).array);
  EXPECT_EQ(16u, copy.srcPitch);
  EXPECT_EQ(3u, copy.srcHeight);
  EXPECT_EQ(0u, copy.dstPitch);
}

TEST(Copy, KeepsDistancesAndOffsetsForAnotherEndOfTheSameKind) {
  CUDA_MEMCPY3D copy = copy_params({0x1000}, {0x2000}, {16, 3});
  copy.srcPitch = 64;
  copy.srcY = 5;
  change_copy(copy, std::nullopt, CopyEnd{0x3000}, std::nullopt);
  EXPECT_EQ(0x3000u, source_of(copy).ptr);
  EXPECT_EQ(64u, copy.srcPitch);
  EXPECT_EQ(5u, copy.srcY);
  EXPECT_EQ(16u, copy.dstPitch);
}

TEST(Copy, StartsAnewForAnEndOfAnotherKind) {
  CUDA_MEMCPY3D copy = copy_params({0x1000}, {0x2000}, {16, 3});
  copy.srcPitch = 64;
  copy.srcY = 5;
  change_copy(copy, std::nullopt, CopyEnd{0, kArray}, std::nullopt);
  EXPECT_EQ(CU_MEMORYTYPE_ARRAY, copy.srcMemoryType);
  EXPECT_EQ(0u, copy.srcY);
  change_copy(copy, std::nullopt, CopyEnd{0x3000}, std::nullopt);
  EXPECT_EQ(CU_MEMORYTYPE_UNIFIED, copy.srcMemoryType);
  EXPECT_EQ(16u, copy.srcPitch);
  EXPECT_EQ(3u, copy.srcHeight);
}

TEST(Copy, OfAnotherSizeStaysPackedWhereItWas) {
  CUDA_MEMCPY3D copy = copy_params({0x1000}, {0x2000}, {64});
  change_copy(copy, std::nullopt, std::nullopt, CopyExtent{8, 4, 1});
  EXPECT_EQ(32u, extent_of(copy).bytes());
  EXPECT_EQ(8u, copy.srcPitch);
  EXPECT_EQ(8u, copy.dstPitch);
  EXPECT_EQ(4u, copy.dstHeight);
}

TEST(Copy, ReadsHostMemoryByItsAddress) {
  CUDA_MEMCPY3D copy = copy_params({0x1000}, {0}, {8});
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = reinterpret_cast<const void*>(0x77);
  EXPECT_EQ(0x77u, source_of(copy).ptr);
}

}  // namespace
