// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/matrix_test.cpp: products of halves with vectors against the sums of a tensor
// core, one at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cpu/engine/runtime/half_product.hpp"
#include "cpu/engine/runtime/small_floats.hpp"

namespace cucpu {
namespace {

struct Numbers {
  std::mt19937 random{20};
  int spread = 5;  // of the exponents' fields

  std::uint16_t half() {
    if (random() % 9 == 0)
      return static_cast<std::uint16_t>(random() % 2 << 15);  // zeros of both signs
    const auto exponent = static_cast<unsigned>(
        std::clamp(15 + static_cast<int>(random() % (2u * spread + 1)) - spread, 0, 30));
    return static_cast<std::uint16_t>((random() & 0x83ff) | exponent << 10);
  }
  float sum() {
    switch (random() % 6) {
      case 0:
        return random() % 2 ? 0.0f : -0.0f;
      case 1:
        return std::bit_cast<float>(
            static_cast<std::uint32_t>(random() & 0x807fffff));  // subnormal
      case 2:
        return std::bit_cast<float>(
            static_cast<std::uint32_t>((random() & 0x807fffff) | (random() % 254 + 1) << 23));
      default:
        return std::bit_cast<float>(
            static_cast<std::uint32_t>((random() & 0x807fffff) | (120 + random() % 16) << 23));
    }
  }
};

/// Four rows of a with Depth columns, and N columns of b.
template <unsigned Depth, unsigned N>
void compare(int spread) {
  constexpr unsigned kRows = 4;
  Numbers numbers;
  numbers.spread = spread;
  const FactorFormat format = factor_format(ptx::Type::f16);
  for (int round = 0; round < 100; ++round) {
    HalfFactors a, b;
    std::uint16_t left[kRows * Depth], right[Depth * N];
    for (std::uint16_t& half : left) half = numbers.half();
    for (std::uint16_t& half : right) half = numbers.half();
    if (round % 4 == 0) std::fill(left + Depth, left + 2 * Depth, std::uint16_t{0x8000});
    ASSERT_TRUE(set_halves(a, left, kRows * Depth, kHalfBiasA));
    ASSERT_TRUE(set_halves(b, right, Depth * N, kHalfBiasB));
    float c[kRows * N], made[kRows * N];
    for (float& f : c) f = numbers.sum();
    ASSERT_TRUE((half_product<Depth, N>(a, b, kRows, c, made)));
    for (unsigned i = 0; i < kRows; ++i)
      for (unsigned j = 0; j < N; ++j) {
        Factor x[Depth], y[Depth];
        for (unsigned k = 0; k < Depth; ++k) {
          x[k] = factor_of(half_to_float(left[i * Depth + k]), format);
          y[k] = factor_of(half_to_float(right[k * N + j]), format);
        }
        const float wanted = tensor_sum(x, y, Depth, 2 * format.bits, c[i * N + j], kHalfRule);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(made[i * N + j]),
                  std::bit_cast<std::uint32_t>(wanted))
            << "round " << round << " row " << i << " column " << j;
      }
  }
}

TEST(HalfProduct, EverySumIsThatOfATensorCore) {
  for (const int spread : {1, 5, 15}) {
    compare<8, 8>(spread);
    compare<16, 8>(spread);
    compare<16, 16>(spread);
    compare<16, 32>(spread);
  }
}

// The sum of 16 products of the largest factors and of the accumulator takes 33 bits.
TEST(HalfProduct, LargestFactorsDoNotOverflow) {
  for (const float factor : {65504.0f, -65504.0f})
    for (const float largest : {0x1.fffffep30f, -0x1.fffffep30f}) {
      HalfFactors a, b;
      std::uint16_t left[4 * 16], right[16 * 8];
      std::fill(left, left + 4 * 16, static_cast<std::uint16_t>(factor < 0 ? 0xfbff : 0x7bff));
      std::fill(right, right + 16 * 8, std::uint16_t{0x7bff});
      ASSERT_TRUE(set_halves(a, left, 4 * 16, kHalfBiasA));
      ASSERT_TRUE(set_halves(b, right, 16 * 8, kHalfBiasB));
      Factor x[16], y[16];
      for (Factor& f : x) f = factor_of(factor, factor_format(ptx::Type::f16));
      for (Factor& f : y) f = factor_of(65504, factor_format(ptx::Type::f16));
      float c[4 * 8], made[4 * 8];
      for (float& f : c) f = largest;
      const float wanted = tensor_sum(x, y, 16, 20, c[0], kHalfRule);
      EXPECT_TRUE((half_product<16, 8>(a, b, 4, c, made)));
      for (const float f : made) EXPECT_EQ(f, wanted);
    }
}

TEST(HalfProduct, AccumulatorsThatAreNotFiniteAreRejected) {
  HalfFactors a, b;
  const std::uint16_t zeros[16 * 16] = {};
  ASSERT_TRUE(set_halves(a, zeros, 16 * 16, kHalfBiasA));
  ASSERT_TRUE(set_halves(b, zeros, 16 * 16, kHalfBiasB));
  for (unsigned i = 0; i < 16 * 16; ++i)
    for (const std::uint32_t bits : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xff800001U}) {
      float c[16 * 16] = {}, made[16 * 16];
      EXPECT_TRUE((half_product<16, 16>(a, b, 16, c, made)));
      c[i] = std::bit_cast<float>(bits);
      EXPECT_FALSE((half_product<16, 16>(a, b, 16, c, made))) << i;
    }
}

// All halves, and each place of a not finite one.
TEST(HalfProduct, FactorsAreUnpacked) {
  HalfFactors factors;
  std::uint16_t halves[512];
  for (unsigned from = 0; from < 0x10000; from += 512) {
    bool finite = true;
    for (unsigned i = 0; i < 512; ++i) {
      halves[i] = static_cast<std::uint16_t>(from + i);
      finite &= (halves[i] & 0x7c00) != 0x7c00;
    }
    EXPECT_EQ(set_halves(factors, halves, 512, kHalfBiasA), finite) << from;
    if (!finite) continue;
    for (unsigned i = 0; i < 512; ++i) {
      const float value = half_to_float(halves[i]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(factors.value[i]),
                std::bit_cast<std::uint32_t>(value));
      const int exponent = value == 0 ? 0 : std::max(std::ilogb(value), -14) + int{kHalfBiasA};
      EXPECT_EQ(factors.exponent[i], exponent) << halves[i];
    }
  }
  for (unsigned i = 0; i < 16; ++i)
    for (const std::uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0xfc01}) {
      std::uint16_t some[16] = {};
      EXPECT_TRUE(set_halves(factors, some, 16, kHalfBiasB));
      some[i] = bits;
      EXPECT_FALSE(set_halves(factors, some, 16, kHalfBiasB));
    }
}

}  // namespace
}  // namespace cucpu
