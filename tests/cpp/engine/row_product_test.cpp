// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/row_product_test.cpp: products for tcgen05 have the same bits with every size of
// vector registers, and their elements are decoded as by the plain functions.
#include "cpu/engine/runtime/row_product.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/tcgen05_elements.hpp"

namespace cucpu {
namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine{seed};
  std::normal_distribution<float> normal;
  std::vector<float> made(count);
  for (float& v : made) v = normal(engine);
  return made;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> made;
  for (const float v : values) made.push_back(std::bit_cast<std::uint32_t>(v));
  return made;
}

TEST(RowProductTest, EverySizeOfVectorsHasTheSameBits) {
  const auto all = all_row_products();
  ASSERT_FALSE(all.empty());
  const std::vector<float> a = random_floats(std::size_t{19} * 32, 1);
  const std::vector<float> b = random_floats(std::size_t{32} * kProductColumns, 2);
  for (const unsigned n : {8U, 24U, 40U, 128U, 256U}) {
    for (const unsigned rows : {1U, 3U, 19U}) {
      std::vector<float> first(std::size_t{19} * kProductColumns);
      all[0].dense(a.data(), 32, rows, b.data(), 31, n, first.data());
      float sum = 0;  // in order of k, each step rounded
      for (unsigned k = 0; k < 31; ++k) {
        const volatile float product = a[(rows - 1) * 32 + k] * b[k * kProductColumns + n - 1];
        sum += product;
      }
      EXPECT_EQ(first[(rows - 1) * kProductColumns + n - 1], sum);
      for (const RowProducts& other : all) {
        std::vector<float> sums(first.size());
        other.dense(a.data(), 32, rows, b.data(), 31, n, sums.data());
        EXPECT_EQ(bits_of(sums), bits_of(first)) << n << " columns, " << rows << " rows";
      }
    }
  }
}

TEST(RowProductTest, ASparseRowMultipliesTheRowsItNames) {
  const std::vector<float> a = random_floats(16, 3);
  const std::vector<float> b = random_floats(std::size_t{32} * kProductColumns, 4);
  std::vector<std::uint8_t> index;
  std::vector<float> gathered;
  for (unsigned k = 0; k < 16; ++k) {
    index.push_back(static_cast<std::uint8_t>(2 * k + k % 2));
    gathered.insert(gathered.end(), b.begin() + index.back() * kProductColumns,
                    b.begin() + (index.back() + 1) * kProductColumns);
  }
  for (const RowProducts& each : all_row_products()) {
    std::vector<float> sparse(kProductColumns), dense(kProductColumns);
    each.sparse(a.data(), index.data(), b.data(), 16, 256, sparse.data());
    each.dense(a.data(), 16, 1, gathered.data(), 16, 256, dense.data());
    EXPECT_EQ(bits_of(sparse), bits_of(dense));
  }
}

TEST(RowProductTest, SumsAreAddedAndNansAreCanonical) {
  for (const RowProducts& each : all_row_products()) {
    std::vector<float> sums(16, 1.5F);
    sums[3] = std::bit_cast<float>(0xffc12345U);
    std::vector<std::uint32_t> d(16, std::bit_cast<std::uint32_t>(4.0F));
    each.sum(sums.data(), d.data(), 16, true, 0.25F);
    for (unsigned j = 0; j < 16; ++j)
      EXPECT_EQ(d[j], j == 3 ? 0x7fffffffU : std::bit_cast<std::uint32_t>(2.5F));
    d.assign(16, 0x7fc00000U);
    each.sum(sums.data(), d.data(), 16, false, 1);
    EXPECT_EQ(d[0], std::bit_cast<std::uint32_t>(1.5F));
  }
}

TEST(RowProductTest, HalvesAreDecodedAsOneByOne) {
  for (std::uint32_t first = 0; first < 65536; first += 8) {
    std::uint16_t halves[8];
    float values[8];
    for (unsigned e = 0; e < 8; ++e) halves[e] = static_cast<std::uint16_t>(first + e);
    decode_chunk<Element::f16>(false, halves, values);
    for (unsigned e = 0; e < 8; ++e) {
      const float expected = half_to_float(halves[e]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(values[e])) << halves[e];
      } else {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(values[e]), std::bit_cast<std::uint32_t>(expected))
            << halves[e];
      }
    }
  }
}

}  // namespace
}  // namespace cucpu
