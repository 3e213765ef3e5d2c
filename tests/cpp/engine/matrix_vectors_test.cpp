// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/matrix_vectors_test.cpp: products of a warp as vectors against the same products
// one sum at a time, for every type, shape and layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/engine/runtime/matrix_job.hpp"
#include "cpu/engine/runtime/vector_sums.hpp"

extern "C" void cucpu_rt_warp_mma_words(const std::uint32_t* head, const std::uint32_t* words,
                                        std::uint32_t* results, std::uint32_t count);

namespace cucpu {
namespace {

using ptx::Type;

unsigned width_of(Type type) { return type == Type::tf32 ? 32 : ptx::bits_of(type); }

struct Shape {
  unsigned m, n, k;
};

/// The operands of one product.
struct Operands {
  std::uint32_t head[4];
  std::vector<std::uint32_t> words;
  MatrixJob job;

  Operands(Shape s, Type a, Type b, Type c, std::uint32_t flags) {
    const unsigned na = s.m * s.k * width_of(a) / 1024, nb = s.k * s.n * width_of(b) / 1024,
                   nc = s.m * s.n * width_of(c) / 1024;
    head[0] = s.m | s.n << 8 | s.k << 16;
    head[1] = static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b) << 8 |
              static_cast<std::uint32_t>(c) << 16 | static_cast<std::uint32_t>(c) << 24;
    head[2] = flags;
    head[3] = na | nb << 8 | nc << 16 | nc << 24;
    words.resize(std::size_t{na + nb + nc} * 32);
    job = MatrixJob::of(head);
  }
  [[nodiscard]] std::uint32_t count() const { return job.na + job.nb + job.nc; }
  [[nodiscard]] std::string name() const {
    return "m" + std::to_string(job.m) + "n" + std::to_string(job.n) + "k" + std::to_string(job.k) +
           " types " + std::to_string(head[1]) + " flags " + std::to_string(job.flags);
  }
};

/// How far the exponents of floats are from that of one; special: infinities, NaN, all others.
enum class Range { near, far, any, special };

class Numbers {
 public:
  /// Words of elements of a type.
  void fill(std::uint32_t* words, std::size_t count, Type type, Range range) {
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = static_cast<std::uint32_t>(random_());
      if (type == Type::bf16)
        words[i] = field(range) << 23 | (words[i] & 0x807f807f) | field(range) << 7;
      else if (type == Type::tf32 || type == Type::f32)
        words[i] = field(range) << 23 | (words[i] & 0x807fffff);
      else if (type == Type::s32 && random_() % 3 == 0)
        words[i] = (words[i] >> 31) + 0x7fffffff + (words[i] & 0xfff);
      if (type == Type::f16 && range != Range::special && range != Range::any)
        words[i] = (words[i] & 0x8fff8fff) | (range == Range::near ? 0x30003000 : 0x20002000);
      if (type == Type::bf16 || type == Type::f16) {
        if (random_() % 8 == 0) words[i] &= 0x8000ffff;
        if (random_() % 8 == 0) words[i] &= 0xffff8000;
      } else if (type != Type::f64 && type != Type::s32 && random_() % 8 == 0) {
        words[i] &= 0x80000000;
      }
    }
    if (type != Type::f64) return;
    for (std::size_t i = 0; i < count; i += 64)  // the upper words of 32 elements
      for (std::size_t lane = 0; lane < 32; ++lane) {
        std::uint32_t& upper = words[i + 32 + lane];
        upper = (upper & 0x800fffff) | wide_field(range) << 20;
        if (random_() % 8 == 0) upper &= 0x80000000, words[i + lane] = 0;
      }
  }

 private:
  std::uint32_t field(Range range) {
    const auto random = static_cast<std::uint32_t>(random_());
    switch (range) {
      case Range::near:
        return 120 + random % 15;
      case Range::far:
        return 70 + random % 110;
      case Range::any:
        return random % 255;
      default:
        return random % 16 == 0 ? 255 : 100 + random % 60;
    }
  }
  std::uint32_t wide_field(Range range) {
    const auto random = static_cast<std::uint32_t>(random_());
    switch (range) {
      case Range::near:
        return 1020 + random % 8;
      case Range::far:
        return 600 + random % 900;
      case Range::any:
        return random % 2047;
      default:
        return random % 16 == 0 ? 2047 : 1000 + random % 50;
    }
  }
  std::mt19937 random_{21};
};

/// Every kind of product that vector_product() has.
std::vector<Operands> all_products() {
  std::vector<Operands> all;
  const auto add_mma = [&](std::initializer_list<Shape> shapes, Type a, Type b, Type c,
                           std::initializer_list<std::uint32_t> flags = {0}) {
    for (const Shape& shape : shapes)
      for (const std::uint32_t flag : flags) all.emplace_back(shape, a, b, c, flag);
  };
  const auto add_wmma = [&](std::initializer_list<Shape> shapes, Type a, Type b, Type c,
                            std::initializer_list<std::uint32_t> flags = {0}) {
    for (const Shape& shape : shapes)
      for (const std::uint32_t flag : flags)
        for (const std::uint32_t layout : {0U, kMatrixColA, kMatrixRowB, kMatrixColA | kMatrixRowB})
          all.emplace_back(shape, a, b, c, flag | kMatrixWmma | layout);
  };
  const std::initializer_list<Shape> wide = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}};
  add_mma({{16, 8, 8}, {16, 8, 16}}, Type::bf16, Type::bf16, Type::f32);
  add_wmma(wide, Type::bf16, Type::bf16, Type::f32);
  add_mma({{16, 8, 8}, {16, 8, 16}}, Type::f16, Type::f16, Type::f16);
  add_wmma(wide, Type::f16, Type::f16, Type::f16);
  add_mma({{16, 8, 4}, {16, 8, 8}}, Type::tf32, Type::tf32, Type::f32);
  add_wmma({{16, 16, 8}}, Type::tf32, Type::tf32, Type::f32);
  for (const Type a : {Type::s8, Type::u8})
    for (const Type b : {Type::s8, Type::u8}) {
      add_mma({{8, 8, 16}, {16, 8, 16}, {16, 8, 32}}, a, b, Type::s32, {0, kMatrixSaturate});
      if (a == b) add_wmma(wide, a, b, Type::s32, {0, kMatrixSaturate});
    }
  for (const Type a : {Type::s4, Type::u4})
    for (const Type b : {Type::s4, Type::u4}) {
      add_mma({{8, 8, 32}, {16, 8, 32}, {16, 8, 64}}, a, b, Type::s32, {0, kMatrixSaturate});
      if (a == b) all.emplace_back(Shape{8, 8, 32}, a, b, Type::s32, kMatrixWmma);
    }
  for (const std::uint32_t flag : {kMatrixXor, kMatrixAnd}) {
    add_mma({{8, 8, 128}, {16, 8, 128}, {16, 8, 256}}, Type::b1, Type::b1, Type::s32, {flag});
    all.emplace_back(Shape{8, 8, 128}, Type::b1, Type::b1, Type::s32, flag | kMatrixWmma);
  }
  add_mma({{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}}, Type::f64, Type::f64, Type::f64);
  add_wmma({{8, 8, 4}}, Type::f64, Type::f64, Type::f64);
  return all;
}

void compare(Operands& operands, Numbers& numbers, Range range, int rounds) {
  SCOPED_TRACE(operands.name());
  const MatrixJob& job = operands.job;
  std::uint32_t* const words = operands.words.data();
  bool vectors = false;
  for (int round = 0; round < rounds; ++round) {
    numbers.fill(words, std::size_t{job.na} * 32, job.a, range);
    if (round == 1)  // no products, and c may be -0
      std::fill(words, words + std::size_t{job.na} * 32, 0U);
    numbers.fill(words + std::size_t{job.na} * 32, std::size_t{job.nb} * 32, job.b, range);
    numbers.fill(words + std::size_t{job.na + job.nb} * 32, std::size_t{job.nc} * 32, job.c, range);
    std::uint32_t made[kMostMatrixResults * 32] = {}, wanted[kMostMatrixResults * 32] = {};
    cucpu_rt_warp_mma_words(operands.head, words, made, operands.count());
    product_by_sums(operands.head, words, wanted, operands.count());
    for (unsigned i = 0; i < job.nd * 32; ++i)
      ASSERT_EQ(made[i], wanted[i]) << "round " << round << " word " << i;
    vectors |= vector_product(job, WarpWords::of(job, words), made);
  }
  EXPECT_TRUE(vectors || range != Range::near);
}

TEST(MatrixVectors, EveryProductHasTheBitsOfSumsThatAreComputedOneByOne) {
  Numbers numbers;
  for (const Range range : {Range::near, Range::far, Range::any, Range::special})
    for (Operands& operands : all_products()) compare(operands, numbers, range, 6);
}

// Highest exponents around the limits of vectors, and products that differ much in size.
TEST(MatrixVectors, SumsNearTheLimitsOfExponentsAreExact) {
  std::mt19937 random{22};
  for (const Type type : {Type::bf16, Type::tf32})
    for (const int top : {-140, -128, -126, -110, -98, -97, -96, -95, -60, 100, 122, 123, 124, 125,
                          126, 127, 128, 130}) {
      Operands operands{Shape{16, 8, type == Type::bf16 ? 16U : 8U}, type, type, Type::f32, 0};
      const MatrixJob& job = operands.job;
      const std::size_t factors = std::size_t{job.na + job.nb} * 32;
      for (int round = 0; round < 40; ++round) {
        for (std::size_t i = 0; i < operands.words.size(); ++i) {
          const auto bits = static_cast<std::uint32_t>(random());
          // Factors of a have half of the exponent; a few are much smaller.
          const auto field = [&](int exponent) {
            const int less = random() % 4 == 0 ? static_cast<int>(random() % 60) : 0;
            return static_cast<std::uint32_t>(std::clamp(exponent - less + 127, 0, 254));
          };
          const int own = i >= factors                   ? top - static_cast<int>(random() % 30)
                          : i < std::size_t{job.na} * 32 ? top / 2
                                                         : top - top / 2;
          operands.words[i] = type == Type::bf16 && i < factors
                                  ? (bits & 0x807f807f) | field(own) << 7 | field(own) << 23
                                  : (bits & 0x807fffff) | field(own) << 23;
        }
        std::uint32_t made[kMostMatrixResults * 32], wanted[kMostMatrixResults * 32];
        cucpu_rt_warp_mma_words(operands.head, operands.words.data(), made, operands.count());
        product_by_sums(operands.head, operands.words.data(), wanted, operands.count());
        for (unsigned i = 0; i < job.nd * 32; ++i)
          ASSERT_EQ(made[i], wanted[i]) << "top " << top << " round " << round << " word " << i;
      }
    }
}

// Each of them is the fastest one on some processors.
TEST(MatrixVectors, AllSumsOfThisHostAgree) {
  std::mt19937 random{23};
  for (const unsigned n : {8U, 16U, 32U}) {
    const unsigned rows = 256 / n, depth = 16;
    std::vector<float> a(rows * depth), b(depth * n), c(256);
    std::vector<double> x(rows * depth), y(depth * n), z(256);
    std::vector<std::int16_t> ea(a.size(), 0), eb(b.size(), 0);
    std::vector<std::int32_t> ci(256);
    for (float& f : a) f = static_cast<float>(random() % 255) - 127;
    for (float& f : b) f = static_cast<float>(random() % 255) - 127;
    for (float& f : c) f = std::ldexp(static_cast<float>(random()), -20);
    for (std::size_t i = 0; i < a.size(); ++i) x[i] = a[i] / 3;
    for (std::size_t i = 0; i < b.size(); ++i) y[i] = b[i] / 7;
    for (std::size_t i = 0; i < 256; ++i) z[i] = c[i], ci[i] = static_cast<std::int32_t>(random());
    z[3] = NAN;
    const auto exponent = [](float f) {
      return static_cast<std::int16_t>(f == 0 ? kNoExponent : std::ilogb(f));
    };
    std::transform(a.begin(), a.end(), ea.begin(), exponent);
    std::transform(b.begin(), b.end(), eb.begin(), exponent);
    const auto run = [&](const VectorSums& sums) {
      std::vector<std::uint8_t> all(256 * (4 + 4 + 4 + 8));
      std::vector<float> floats(256);
      std::vector<std::int32_t> wrapped(256), saturated(256);
      std::vector<double> doubles(256);
      EXPECT_TRUE(sums.floats(rows, n, depth, {a.data(), ea.data()}, {b.data(), eb.data()},
                              c.data(), floats.data()));
      sums.integers(rows, n, depth, a.data(), b.data(), ci.data(), false, wrapped.data());
      sums.integers(rows, n, depth, a.data(), b.data(), ci.data(), true, saturated.data());
      sums.doubles(rows, n, depth, x.data(), y.data(), z.data(), doubles.data());
      std::memcpy(all.data(), floats.data(), 1024);
      std::memcpy(all.data() + 1024, wrapped.data(), 1024);
      std::memcpy(all.data() + 2048, saturated.data(), 1024);
      std::memcpy(all.data() + 3072, doubles.data(), 2048);
      return all;
    };
    const auto wanted = run(all_vector_sums().front());
    for (const VectorSums& sums : all_vector_sums()) EXPECT_EQ(run(sums), wanted) << n;
    // One of them by hand.
    double sum = z[0];
    for (unsigned k = 0; k < depth; ++k) sum = std::fma(x[k], y[k * n], sum);
    double first = 0;
    std::memcpy(&first, wanted.data() + 3072, sizeof first);
    EXPECT_EQ(first, sum);
  }
}

}  // namespace
}  // namespace cucpu
