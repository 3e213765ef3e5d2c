// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/half_product.hpp: a vectorized matrix product of f16 into f32, the most
// frequent case: the sums of tensor_sum.hpp (kHalfRule), 16 columns of the result at a time.
// Products of f16 are exact in f32, also when scaled by a power of two; the conversion to an
// integer truncates them as a tensor core does. Exponents are bytes, which take a quarter of the
// vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "cpu/engine/runtime/tensor_sum.hpp"

#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

namespace cucpu {

inline constexpr unsigned kHalfProductSize = 32, kHalfProductDepth = 16;

/// Exponents of a and b are stored with these biases, so that the exponent of a product has the
/// bias of a float. That of zero is stored as 0: no sum with it reaches that of a product.
inline constexpr unsigned kHalfBiasA = 64, kHalfBiasB = 63;
/// The stored exponent of the least product, 2^-28.
inline constexpr std::uint8_t kHalfLeast = 127 - 28;

/// One factor matrix, unpacked: rows of `value` contain k consecutive elements for a, n for b.
struct HalfFactors {
  float value[kHalfProductSize * kHalfProductDepth];
  std::uint8_t exponent[kHalfProductSize * kHalfProductDepth];
};

namespace half_vectors {

using Bytes [[gnu::vector_size(16)]] = std::uint8_t;
using Halves [[gnu::vector_size(16)]] = std::uint16_t;
using Ints [[gnu::vector_size(16)]] = std::int32_t;
using Words [[gnu::vector_size(16)]] = std::uint32_t;
using Floats [[gnu::vector_size(16)]] = float;

template <typename Vector>
Vector load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
void store(void* to, auto vector) { std::memcpy(to, &vector, sizeof vector); }

/// The low and the high bytes of 16 halves.
inline Bytes low_bytes(Halves x, Halves y) {
  return __builtin_shufflevector(std::bit_cast<Bytes>(x), std::bit_cast<Bytes>(y), 0, 2, 4, 6, 8,
                                 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
inline Bytes high_bytes(Halves x, Halves y) {
  return __builtin_shufflevector(std::bit_cast<Bytes>(x), std::bit_cast<Bytes>(y), 1, 3, 5, 7, 9,
                                 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
/// The upper halves of eight words.
inline Halves high_halves(Words x, Words y) {
  return __builtin_shufflevector(std::bit_cast<Halves>(x), std::bit_cast<Halves>(y), 1, 3, 5, 7, 9,
                                 11, 13, 15);
}

/// Stores floats that consist of 16 exponents, which are given as in a float.
inline void store_powers(float* to, Bytes exponents) {
  const Bytes low = exponents << 7, high = exponents >> 1;
  const auto first = std::bit_cast<Halves>(
      __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  const auto second = std::bit_cast<Halves>(__builtin_shufflevector(
      low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  const Halves zero{};
  store(to, __builtin_shufflevector(zero, first, 0, 8, 1, 9, 2, 10, 3, 11));
  store(to + 4, __builtin_shufflevector(zero, first, 4, 12, 5, 13, 6, 14, 7, 15));
  store(to + 8, __builtin_shufflevector(zero, second, 0, 8, 1, 9, 2, 10, 3, 11));
  store(to + 12, __builtin_shufflevector(zero, second, 4, 12, 5, 13, 6, 14, 7, 15));
}

/// Stores eight halves as floats; infinities and NaN have no meaning.
inline void store_values(float* to, Halves halves) {
#ifdef __ARM_NEON
  const auto eight = std::bit_cast<float16x8_t>(halves);
  vst1q_f32(to, vcvt_f32_f16(vget_low_f16(eight)));
  vst1q_f32(to + 4, vcvt_high_f32_f16(eight));
#else
  constexpr float kExponents = 0x1p112f;              // the difference of the exponent biases
  constexpr std::int32_t kSignAndSize = ~0x70001fff;  // of a half that was extended and shifted
  const Halves zero{};
  const auto values = [](Halves upper) {
    return std::bit_cast<Floats>(std::bit_cast<Ints>(upper) >> 3 & kSignAndSize) * kExponents;
  };
  store(to, values(__builtin_shufflevector(zero, halves, 0, 8, 1, 9, 2, 10, 3, 11)));
  store(to + 4, values(__builtin_shufflevector(zero, halves, 4, 12, 5, 13, 6, 14, 7, 15)));
#endif
}

/// 16 bytes, or eight twice.
template <unsigned Count>
Bytes load_bytes(const std::uint8_t* from) {
  if constexpr (Count >= 16) return load<Bytes>(from);
  using Eight [[gnu::vector_size(8)]] = std::uint8_t;
  const auto eight = load<Eight>(from);
  return __builtin_shufflevector(eight, eight, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
}

}  // namespace half_vectors

/// Sets the first `count` elements (a multiple of 16); false if one of them is not finite.
inline bool set_halves(HalfFactors& to, const std::uint16_t* halves, unsigned count,
                       unsigned bias) {
  using namespace half_vectors;
  constexpr unsigned kHalfBias = 15;
  Bytes most{};
  for (unsigned at = 0; at < count; at += 16) {
    const auto first = load<Halves>(halves + at), second = load<Halves>(halves + at + 8);
    const Bytes high = high_bytes(first, second) << 1;  // without the sign
    const Bytes field = high >> 3;
    const Bytes bits = high | low_bytes(first, second);
    most = field > most ? field : most;
    Bytes exponent = field > 1 ? field : Bytes{} + 1;  // subnormal numbers
    exponent += static_cast<std::uint8_t>(bias - kHalfBias);
    store(to.exponent + at, exponent & std::bit_cast<Bytes>(bits != 0));
    store_values(to.value + at, first);
    store_values(to.value + at + 8, second);
  }
  std::uint8_t largest = 0;
  for (unsigned i = 0; i < 16; ++i) largest = std::max<std::uint8_t>(largest, most[i]);
  return largest < 31;
}

/// The highest exponents of the products of Depth factors from `a` on with columns of b, as stored:
/// 16 columns, or eight twice. N: the columns of b.
template <unsigned Depth, unsigned N>
[[gnu::always_inline]] inline half_vectors::Bytes highest_exponents(const std::uint8_t* a,
                                                                    const std::uint8_t* b) {
  using namespace half_vectors;
  Bytes most[2] = {};  // two, so that operations do not wait for each other
  for (unsigned k = 0; k < Depth; ++k) {
    const Bytes both = load_bytes<N>(b + k * N) + a[k];
    most[k % 2] = both > most[k % 2] ? both : most[k % 2];
  }
  return most[0] > most[1] ? most[0] : most[1];
}

/// c + the sum of products, truncated. `scale`: the reciprocal of the unit of the sum.
inline half_vectors::Floats truncated_total(half_vectors::Floats c, half_vectors::Ints sum,
                                            half_vectors::Floats scale) {
  using namespace half_vectors;
  const Ints old = __builtin_convertvector(c * scale, Ints);  // less than 2^26
  // The total has up to 33 bits. Its sign is that of both terms if they agree.
  const Words total = std::bit_cast<Words>(old) + std::bit_cast<Words>(sum);
  const Ints sign = (((std::bit_cast<Ints>(total) ^ old) & (old ^ sum)) ^ old) >> 31;
  const auto flip = std::bit_cast<Words>(sign);
  const Words size = (total ^ flip) - flip;
  // 24 bits stay: without the bit below them, the conversion rounds down.
  const auto kept = __builtin_convertvector(size & ~(size >> kHalfRule.significant), Floats);
  const auto unit = std::bit_cast<Words>((2 * 127 << 23) - std::bit_cast<Ints>(scale));
  return kept * std::bit_cast<Floats>(unit | (flip & 0x80000000));
}

/// made = c + a * b for up to 16 columns of some rows; four columns are one vector. N: the columns
/// of b. Eight vectors of sums are independent of each other, and rows share what they load of b.
template <unsigned Depth, unsigned N>
[[gnu::always_inline]] inline void sum_rows(const float* a, const float* b,
                                            const float (*scales)[16], unsigned scale_rows,
                                            const float* c, float* __restrict made) {
  using namespace half_vectors;
  constexpr unsigned kVectors = std::min(N, 16U) / 4, kRows = 8 / kVectors;
  // 16 products of less than 2^27 each: 2047 * 2047 * 32 * 16 < 2^31.
  Ints sum[kRows][kVectors] = {};
  Floats scale[kRows][kVectors];
  for (unsigned r = 0; r < kRows; ++r)
    for (unsigned v = 0; v < kVectors; ++v)
      scale[r][v] = load<Floats>(scales[r * scale_rows] + 4 * v);
  for (unsigned k = 0; k < Depth; ++k)
    for (unsigned v = 0; v < kVectors; ++v) {
      const auto right = load<Floats>(b + k * N + 4 * v);
      for (unsigned r = 0; r < kRows; ++r)
        sum[r][v] += __builtin_convertvector(right * a[r * Depth + k] * scale[r][v], Ints);
    }
  for (unsigned r = 0; r < kRows; ++r)
    for (unsigned v = 0; v < kVectors; ++v)
      store(made + r * N + 4 * v,
            truncated_total(load<Floats>(c + r * N + 4 * v), sum[r][v], scale[r][v]));
}

/// made = c + a * b, with `rows` rows, a multiple of four; N: the columns. False if an element of c
/// is not finite: then made has no meaning.
template <unsigned Depth, unsigned N>
bool half_product(const HalfFactors& a, const HalfFactors& b, unsigned rows, const float* c,
                  float* __restrict made) {
  using namespace half_vectors;
  constexpr unsigned kColumns = std::min(N, 16U), kParts = N / kColumns, kRows = 32 / kColumns;
  Bytes most[kHalfProductSize], largest{}, least = Bytes{} + std::uint8_t{255};
  alignas(16) float scales[kHalfProductSize][16];
  for (unsigned i = 0; i < rows * kParts; ++i) {
    most[i] = highest_exponents<Depth, N>(a.exponent + i / kParts * Depth,
                                          b.exponent + i % kParts * kColumns);
    least = most[i] < least ? most[i] : least;
    const float* const four = c + i * kColumns;
    const auto halves = [&](unsigned at) {
      return high_halves(load<Words>(four + at % kColumns), load<Words>(four + at % kColumns + 4))
             << 1;
    };
    // Too small for subnormal numbers, and below the least exponent in any case.
    const Bytes own = high_bytes(halves(0), halves(8));
    Bytes highest = most[i] > kHalfLeast ? most[i] : Bytes{} + kHalfLeast;
    highest = own > highest ? own : highest;
    largest = highest > largest ? highest : largest;
    store_powers(scales[i], static_cast<std::uint8_t>(2 * 127 + kHalfRule.fraction) - highest);
  }
  std::uint8_t highest = 0, lowest = 255;
  for (unsigned i = 0; i < 16; ++i) highest = std::max<std::uint8_t>(highest, largest[i]);
  for (unsigned i = 0; i < 16; ++i) lowest = std::min<std::uint8_t>(lowest, least[i]);
  if (highest == 255) return false;
  for (unsigned i = 0; i < rows; i += kRows)
    for (unsigned part = 0; part < kParts; ++part) {
      const unsigned column = part * kColumns, at = i * N + column;
      sum_rows<Depth, N>(a.value + i * Depth, b.value + column, scales + i * kParts + part, kParts,
                         c + at, made + at);
    }
  if (lowest >= kHalfLeast) return true;
  // Without a product c stays as it is; -0 becomes 0.
  for (unsigned i = 0; i < rows * kParts; ++i)
    for (unsigned j = 0; j < kColumns; ++j)
      if (most[i][j] < kHalfLeast) made[i * kColumns + j] = c[i * kColumns + j] + 0.0f;
  return true;
}

}  // namespace cucpu
