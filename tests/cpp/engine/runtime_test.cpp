// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/runtime_test.cpp: routines of cpu/engine/runtime called as plain functions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/engine/runtime/matrix_elements.hpp"
#include "cpu/engine/runtime/reduce.hpp"
#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/sparse.hpp"
#include "cpu/engine/runtime/tensor_sum.hpp"

extern "C" {
void cucpu_rt_mbarrier_init(void*, std::uint32_t count, std::uint32_t layout);
std::uint32_t cucpu_rt_mbarrier_layout(void*);
std::uint64_t cucpu_rt_mbarrier_arrive(void*, std::uint32_t count, std::uint32_t bytes);
std::uint64_t cucpu_rt_mbarrier_arrive_drop(void*, std::uint32_t count, std::uint32_t bytes);
void cucpu_rt_mbarrier_expect_tx(void*, std::uint32_t bytes);
void cucpu_rt_mbarrier_complete_tx(void*, std::uint32_t bytes);
bool cucpu_rt_mbarrier_test(void*, std::uint64_t state);
bool cucpu_rt_mbarrier_test_parity(void*, std::uint32_t parity);
std::uint32_t cucpu_rt_mbarrier_pending(std::uint64_t state);
void cucpu_rt_copy_fill(void* to, const void* from, std::uint32_t size, std::uint32_t given);
double cucpu_rt_add_f64_rm(double, double);
double cucpu_rt_add_f64_rp(double, double);
double cucpu_rt_div_f64_rz(double, double);
double cucpu_rt_sqrt_f64_rp(double);
std::uint32_t cucpu_rt_fns(std::uint32_t mask, std::uint32_t base, std::uint32_t offset);
}

namespace cucpu::test {
namespace {

// ---- mbarrier ----

TEST(Mbarrier, ThePhaseEndsWithTheLastArrival) {
  std::uint64_t barrier = 0;
  cucpu_rt_mbarrier_init(&barrier, 3, 0);
  const std::uint64_t state = cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_EQ(cucpu_rt_mbarrier_pending(state), 3U);
  cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_FALSE(cucpu_rt_mbarrier_test(&barrier, state));
  EXPECT_FALSE(cucpu_rt_mbarrier_test_parity(&barrier, 0));
  cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_TRUE(cucpu_rt_mbarrier_test(&barrier, state));
  EXPECT_TRUE(cucpu_rt_mbarrier_test_parity(&barrier, 0));
  EXPECT_FALSE(cucpu_rt_mbarrier_test_parity(&barrier, 1));
}

TEST(Mbarrier, ThePhaseWaitsForExpectedBytesInEitherOrder) {
  std::uint64_t barrier = 0;
  cucpu_rt_mbarrier_init(&barrier, 1, 1);
  EXPECT_EQ(cucpu_rt_mbarrier_layout(&barrier), 1U);
  cucpu_rt_mbarrier_complete_tx(&barrier, 100);  // the copy is faster than the arrival
  EXPECT_FALSE(cucpu_rt_mbarrier_test_parity(&barrier, 0));
  cucpu_rt_mbarrier_arrive(&barrier, 1, 100);
  EXPECT_TRUE(cucpu_rt_mbarrier_test_parity(&barrier, 0));
  cucpu_rt_mbarrier_expect_tx(&barrier, 64);
  cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_FALSE(cucpu_rt_mbarrier_test_parity(&barrier, 1));
  cucpu_rt_mbarrier_complete_tx(&barrier, 64);
  EXPECT_TRUE(cucpu_rt_mbarrier_test_parity(&barrier, 1));
  EXPECT_EQ(cucpu_rt_mbarrier_layout(&barrier), 1U);
}

TEST(Mbarrier, ADroppedArrivalIsNotExpectedInLaterPhases) {
  std::uint64_t barrier = 0;
  cucpu_rt_mbarrier_init(&barrier, 2, 0);
  cucpu_rt_mbarrier_arrive_drop(&barrier, 1, 0);
  cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_TRUE(cucpu_rt_mbarrier_test_parity(&barrier, 0));
  cucpu_rt_mbarrier_arrive(&barrier, 1, 0);
  EXPECT_TRUE(cucpu_rt_mbarrier_test_parity(&barrier, 1));
}

TEST(CopyFill, BytesThatAreNotGivenAreZero) {
  const char from[] = "abcdefgh";
  char to[8];
  std::memset(to, 'x', sizeof to);
  cucpu_rt_copy_fill(to, from, 6, 3);
  EXPECT_EQ(std::memcmp(to, "abc\0\0\0xx", 8), 0);
}

// ---- arithmetic ----

TEST(DirectedRounding, ResultsDifferByOneUnitAndNansAreThoseOfAGpu) {
  const double low = cucpu_rt_add_f64_rm(1.0, 1e-30), high = cucpu_rt_add_f64_rp(1.0, 1e-30);
  EXPECT_EQ(low, 1.0);
  EXPECT_EQ(high, std::nextafter(1.0, 2.0));
  EXPECT_EQ(cucpu_rt_div_f64_rz(-1.0, 3.0), -cucpu_rt_div_f64_rz(1.0, 3.0));
  EXPECT_GE(cucpu_rt_sqrt_f64_rp(2.0) * cucpu_rt_sqrt_f64_rp(2.0), 2.0);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(cucpu_rt_div_f64_rz(0.0, 0.0)), 0xfff8000000000000);
  const auto signaling = std::bit_cast<double>(std::uint64_t{0x7ff0000000000001});
  EXPECT_EQ(std::bit_cast<std::uint64_t>(cucpu_rt_add_f64_rm(signaling, 1.0)), 0x7ff8000000000001);
}

TEST(Fns, FindsTheNthSetBitInBothDirections) {
  EXPECT_EQ(cucpu_rt_fns(0b10110, 0, 1), 1U);
  EXPECT_EQ(cucpu_rt_fns(0b10110, 0, 3), 4U);
  EXPECT_EQ(cucpu_rt_fns(0b10110, 0, 4), ~0U);
  EXPECT_EQ(cucpu_rt_fns(0b10110, 4, static_cast<std::uint32_t>(-2)), 2U);
  EXPECT_EQ(cucpu_rt_fns(0b10110, 2, 0), 2U);
  EXPECT_EQ(cucpu_rt_fns(0b10110, 3, 0), ~0U);
  EXPECT_EQ(cucpu_rt_fns(~0U, 32, 1), ~0U);
}

TEST(SmallFloats, EveryHalfSurvivesAConversionToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(float_to_half(half_to_float(half)), nan ? 0x7fff : half);
    const bool brain_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(float_to_brain(brain_to_float(half)), brain_nan ? 0x7fff : half);
  }
}

TEST(SmallFloats, RoundingIsToNearestEvenAndOverflowIsInfinity) {
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // a tie: to even
  EXPECT_EQ(float_to_half(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(float_to_brain(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_brain(std::bit_cast<float>(0x3f818000u)), 0x3f82);
}

TEST(SmallFloats, EightBitFormatsSaturateAtTheirLargestFiniteValue) {
  EXPECT_EQ(decode_small(0x7e, 4, 3), 448.0f);
  EXPECT_TRUE(std::isnan(decode_small(0x7f, 4, 3)));
  EXPECT_EQ(encode_small(1e9f, 4, 3, 0x7e), 0x7eU);
  EXPECT_EQ(encode_small(-1e9f, 5, 2, 0x7b), 0xfbU);
  for (std::uint32_t bits = 0; bits < 0x7f; ++bits)
    EXPECT_EQ(encode_small(decode_small(bits, 4, 3), 4, 3, 0x7e), bits);
}

// ---- reductions ----

template <typename T>
T reduced(ptx::Type type, ReduceOp op, T to, T from) {
  EXPECT_TRUE(reduce_element(type, op, &to, &from));
  return to;
}

TEST(Reduce, SignedAndUnsignedComparisonsDiffer) {
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::u32, ReduceOp::max, 1, ~0U), ~0U);
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::s32, ReduceOp::max, 1, ~0U), 1U);
  EXPECT_EQ(reduced<std::uint64_t>(ptx::Type::s64, ReduceOp::min, 1, ~std::uint64_t{0}),
            ~std::uint64_t{0});
}

TEST(Reduce, IncrementAndDecrementWrapAtTheBound) {
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::u32, ReduceOp::inc, 4, 5), 5U);
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::u32, ReduceOp::inc, 5, 5), 0U);
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::u32, ReduceOp::dec, 0, 5), 5U);
  EXPECT_EQ(reduced<std::uint32_t>(ptx::Type::u32, ReduceOp::dec, 9, 5), 5U);
}

TEST(Reduce, AMinimumOfFloatsIgnoresNansAndOrdersZeros) {
  const std::uint16_t nan = 0x7fff, one = 0x3c00, zero = 0, minus_zero = 0x8000;
  EXPECT_EQ(reduced(ptx::Type::f16, ReduceOp::min, nan, one), one);
  EXPECT_EQ(reduced(ptx::Type::f16, ReduceOp::min, zero, minus_zero), minus_zero);
  EXPECT_EQ(reduced(ptx::Type::f16, ReduceOp::max, minus_zero, zero), zero);
}

TEST(Reduce, AnOperationWithoutAnInstructionReturnsFalse) {
  float to = 1, from = 2;
  EXPECT_FALSE(reduce_element(ptx::Type::f32, ReduceOp::min, &to, &from));
  EXPECT_FALSE(reduce_element(ptx::Type::f16, ReduceOp::bit_and, &to, &from));
  EXPECT_EQ(to, 1.0f);
}

// ---- matrices ----

TEST(MatrixElements, ElementsOfEveryWidthAreStoredWhereTheyAreRead) {
  for (const unsigned bits : {4U, 8U, 16U, 32U, 64U}) {
    std::uint32_t words[16] = {};
    const unsigned count = 16 * 32 / bits;
    const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    for (unsigned i = 0; i < count; ++i)
      set_element(words, bits, i, (i * 0x9e3779b97f4a7c15) & mask);
    for (unsigned i = 0; i < count; ++i)
      ASSERT_EQ(element(words, bits, i), (i * 0x9e3779b97f4a7c15) & mask) << bits << ' ' << i;
  }
}

TEST(MatrixElements, SignedTypesAreSignExtended) {
  EXPECT_EQ(decode(ptx::Type::s4, 0xf), -1.0);
  EXPECT_EQ(decode(ptx::Type::s8, 0x80), -128.0);
  EXPECT_EQ(decode(ptx::Type::u4, 0xf), 15.0);
  EXPECT_EQ(decode(ptx::Type::tf32, 0x3f801fff), 1.0);  // the low 13 bits do not count
}

TEST(Sparse, MetadataSelectsTwoOfFourColumns) {
  // Each half byte 0b1101: the first stored element is column 1, the second column 3.
  const auto metadata = [](unsigned) { return 0xddddddddU; };
  for (unsigned col = 0; col < 8; ++col)
    EXPECT_EQ(dense_column(ptx::Type::f16, 16, 0, 0, col, metadata),
              col / 2 * 4 + (col % 2 ? 3 : 1));
}

TEST(TensorSum, ProductsAreCutBelowTheLargestExponent) {
  const FactorFormat half = factor_format(ptx::Type::f16);
  const auto sum = [&](double a, double b, float c) {
    const Factor x[] = {factor_of(a, half), factor_of(b, half)};
    const Factor one[] = {factor_of(1, half), factor_of(1, half)};
    return tensor_sum(x, one, 2, 2 * half.bits, c, kHalfRule);
  };
  EXPECT_EQ(sum(1, 2, 3), 6.0f);
  EXPECT_EQ(sum(1024, 0x1p-14, 0), 1024.0f);  // cut to 24 significant bits
  EXPECT_EQ(sum(0, 0, -0.0f), 0.0f);
  EXPECT_EQ(sum(1, -1, 0x1p-30f), 0.0f);  // more than 25 bits below the largest exponent
}

}  // namespace
}  // namespace cucpu::test
