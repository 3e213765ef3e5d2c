// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/matrix_test.cpp: products of halves with vectors against the sums of a tensor
// core, one at a time.
#include <gtest/gtest.h>

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

template <unsigned N>
void compare(unsigned depth, int spread) {
  Numbers numbers;
  numbers.spread = spread;
  for (int round = 0; round < 300; ++round) {
    HalfFactors a, b;
    Factor x[kHalfProductDepth], y[N][kHalfProductDepth];
    const FactorFormat format = factor_format(ptx::Type::f16);
    for (unsigned k = 0; k < depth; ++k) {
      const std::uint16_t left = numbers.half();
      ASSERT_TRUE(set_half(a, k, left));
      x[k] = factor_of(half_to_float(left), format);
      for (unsigned j = 0; j < N; ++j) {
        const std::uint16_t right = numbers.half();
        ASSERT_TRUE(set_half(b, k * N + j, right));
        y[j][k] = factor_of(half_to_float(right), format);
      }
    }
    float c[N], wanted[N];
    for (unsigned j = 0; j < N; ++j) {
      c[j] = numbers.sum();
      wanted[j] = tensor_sum(x, y[j], depth, 2 * format.bits, c[j], kHalfRule);
    }
    half_product_row<N>(a, 0, b, depth, c);
    for (unsigned j = 0; j < N; ++j)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(c[j]), std::bit_cast<std::uint32_t>(wanted[j]))
          << "round " << round << " column " << j;
  }
}

TEST(HalfProduct, EverySumIsThatOfATensorCore) {
  for (const int spread : {1, 5, 15})
    for (const unsigned depth : {8u, 16u}) {
      compare<8>(depth, spread);
      compare<16>(depth, spread);
      compare<32>(depth, spread);
    }
}

TEST(HalfProduct, LargestFactorsDoNotOverflow) {
  HalfFactors a, b;
  for (unsigned k = 0; k < 16; ++k) {
    set_half(a, k, 0x7bff);
    for (unsigned j = 0; j < 8; ++j) set_half(b, k * 8 + j, 0x7bff);
  }
  Factor x[16];
  for (Factor& f : x) f = factor_of(65504, factor_format(ptx::Type::f16));
  float c[8];
  for (float& f : c) f = 0x1.fffffep30f;
  const float wanted = tensor_sum(x, x, 16, 20, c[0], kHalfRule);
  half_product_row<8>(a, 0, b, 16, c);
  EXPECT_EQ(c[0], wanted);
}

TEST(HalfProduct, InfinitiesAndNanAreRejected) {
  HalfFactors a;
  EXPECT_FALSE(set_half(a, 0, 0x7c00));
  EXPECT_FALSE(set_half(a, 0, 0xfe01));
  EXPECT_TRUE(set_half(a, 0, 0x0001));
  EXPECT_EQ(a.value[0], 0x1p-24f);
}

TEST(HalfProduct, SettingManyEqualsSettingEach) {
  HalfFactors one, many;
  std::uint16_t halves[512];
  for (unsigned from = 0; from < 0x10000; from += 512) {
    bool finite = true;
    for (unsigned i = 0; i < 512; ++i) {
      halves[i] = static_cast<std::uint16_t>(from + i);
      finite &= set_half(one, i, halves[i]);
    }
    EXPECT_EQ(set_halves(many, halves, 512), finite) << from;
    EXPECT_EQ(std::memcmp(one.value, many.value, sizeof one.value), 0) << from;
    EXPECT_EQ(std::memcmp(one.exponent, many.exponent, sizeof one.exponent), 0) << from;
  }
  // Each place counts.
  for (unsigned i = 0; i < 8; ++i) {
    std::uint16_t eight[8] = {};
    eight[i] = 0xfc00;
    EXPECT_FALSE(set_halves(many, eight, 8));
  }
}

}  // namespace
}  // namespace cucpu
