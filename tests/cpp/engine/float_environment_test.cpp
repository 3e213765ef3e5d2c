// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/float_environment_test.cpp: kernels run with default floating-point modes.
#include "cpu/engine/run/float_environment.hpp"

#include <gtest/gtest.h>

#include <cfenv>

namespace cucpu::test {
namespace {

TEST(FloatEnvironment, RoundsToNearestInTheScopeAndRestoresTheCallersMode) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const volatile double one = 1, tiny = 1e-30;
  {
    const ScopedFloatEnvironment environment;
    const volatile double sum = one + tiny;
    EXPECT_EQ(sum, 1.0);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  const volatile double sum = one + tiny;
  EXPECT_GT(sum, 1.0);
  std::fesetround(FE_TONEAREST);
}

}  // namespace
}  // namespace cucpu::test
