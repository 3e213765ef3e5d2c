// SPDX-License-Identifier: Apache-2.0
// copy_test.cpp: copy directions and pitches.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeCopy, EveryDirectionPreservesBytesAndUnknownKindFails) {
  std::array<unsigned char, 64> there{}, back{};
  std::iota(there.begin(), there.end(), static_cast<unsigned char>(1));
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(rt.cudaMalloc(&a, 64), cudaSuccess);
  ASSERT_EQ(rt.cudaMalloc(&b, 64), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(a, there.data(), 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(b, a, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(back.data(), b, 64, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(there, back);
  EXPECT_EQ(rt.cudaMemcpy(a, b, 64, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(rt.cudaFree(a), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(b), cudaSuccess);
  rt.cudaGetLastError();
}

TEST(RuntimeCopy, PitchSmallerThanWidthReturnsInvalidPitch) {
  std::array<char, 64> host{};
  EXPECT_EQ(rt.cudaMemcpy2D(host.data(), 4, host.data() + 32, 4, 8, 2, cudaMemcpyHostToHost),
            cudaErrorInvalidPitchValue);
  rt.cudaGetLastError();
}

}  // namespace
