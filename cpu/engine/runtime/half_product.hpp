// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/half_product.hpp: a vectorized matrix product of f16 into f32, the most
// frequent case: the sums of tensor_sum.hpp (kHalfRule), one row of the result at a time. Products
// of f16 are exact in f32, also when scaled by a power of two; the conversion to an integer
// truncates them as a tensor core does.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/engine/runtime/tensor_sum.hpp"

namespace cucpu {

inline constexpr unsigned kHalfProductSize = 32, kHalfProductDepth = 16;

/// One factor matrix, unpacked: rows of `value` contain k consecutive elements for a, n for b.
struct HalfFactors {
  float value[kHalfProductSize * kHalfProductDepth];
  std::int8_t exponent[kHalfProductSize * kHalfProductDepth];  ///< kNoHalf for zero
};

/// The exponent of zero. Added to any exponent, itself included, it is less than that of any
/// product and at least -128.
inline constexpr std::int8_t kNoHalf = -64;

/// False for infinities and NaN.
inline bool set_half(HalfFactors& to, unsigned at, std::uint32_t half) {
  constexpr float kExponents = 0x1p112f;  // the difference of the exponent biases
  const float size = std::bit_cast<float>((half & 0x7fff) << 13) * kExponents;
  to.value[at] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | (half & 0x8000) << 16);
  const auto field = static_cast<std::int32_t>(half >> 10 & 31);
  to.exponent[at] =
      (half & 0x7fff) == 0 ? kNoHalf : static_cast<std::int8_t>(std::max(field, 1) - 15);
  return field != 31;
}

// Conversions between element widths use vectors of two registers, for which compilers have
// instructions; all other operations use single registers.

/// Sets the first `count` elements (a multiple of eight); false if one of them is not finite.
inline bool set_halves(HalfFactors& to, const std::uint16_t* halves, unsigned count) {
  using Halves [[gnu::vector_size(16)]] = std::uint16_t;
  using Wide [[gnu::vector_size(32)]] = std::uint32_t;
  using Ints [[gnu::vector_size(16)]] = std::int32_t;
  using Floats [[gnu::vector_size(16)]] = float;
  constexpr float kExponents = 0x1p112f;  // as above
  using Shorts [[gnu::vector_size(16)]] = std::int16_t;
  using Bytes [[gnu::vector_size(8)]] = std::int8_t;
  Halves most{};
  for (unsigned at = 0; at < count; at += 8) {
    Halves eight;
    std::memcpy(&eight, halves + at, sizeof eight);
    const Halves sizes = eight & 0x7fff;
    most = sizes > most ? sizes : most;
    const auto field = std::bit_cast<Shorts>(sizes >> 10);
    Shorts exponent = (field > 1 ? field : Shorts{} + 1) - 15;
    exponent = sizes == 0 ? Shorts{} + kNoHalf : exponent;
    const Bytes narrow = __builtin_convertvector(exponent, Bytes);
    std::memcpy(to.exponent + at, &narrow, sizeof narrow);
    const Wide wide = __builtin_convertvector(eight, Wide);
    Ints four[2];
    std::memcpy(four, &wide, sizeof wide);
    for (unsigned i = 0; i < 2; ++i) {
      const Floats value = std::bit_cast<Floats>((four[i] & 0x7fff) << 13) * kExponents;
      const Ints bits = std::bit_cast<Ints>(value) | (four[i] & 0x8000) << 16;
      std::memcpy(to.value + at + 4 * i, &bits, sizeof bits);
    }
  }
  std::uint16_t largest = 0;
  for (unsigned i = 0; i < 8; ++i) largest = std::max<std::uint16_t>(largest, most[i]);
  return largest < 0x7c00;
}

/// Adds the truncated sums of products to four accumulators, truncated in the same way, and
/// truncates the results.
inline void finish_half_sums(const void* tops, const void* sums, const void* presents,
                             const void* scales, float* c) {
  using Ints [[gnu::vector_size(16)]] = std::int32_t;
  using Floats [[gnu::vector_size(16)]] = float;
  using Longs [[gnu::vector_size(16)]] = std::int64_t;
  using Doubles [[gnu::vector_size(16)]] = double;
  using WideLongs [[gnu::vector_size(32)]] = std::int64_t;
  using WideDoubles [[gnu::vector_size(32)]] = double;
  const auto widen = [](auto* to, auto* as, const void* from) {
    std::remove_pointer_t<decltype(as)> narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    using Wide = std::conditional_t<std::is_same_v<decltype(to), Longs*>, WideLongs, WideDoubles>;
    const Wide wide = __builtin_convertvector(narrow, Wide);
    std::memcpy(to, &wide, sizeof wide);
  };
  Longs top[2], sum[2];
  Doubles scale[2], old[2], made[2];
  widen(top, static_cast<Ints*>(nullptr), tops);
  widen(sum, static_cast<Ints*>(nullptr), sums);
  widen(scale, static_cast<Floats*>(nullptr), scales);
  widen(old, static_cast<Floats*>(nullptr), c);
  for (unsigned i = 0; i < 2; ++i) {
    const Longs unit = (top[i] + (1023 - kHalfRule.fraction)) << 52;
    const Longs own = __builtin_convertvector(old[i] * scale[i], Longs);
    const Doubles total = __builtin_convertvector(own + sum[i], Doubles);
    // 24 of 53 significant bits stay.
    constexpr std::int64_t kKept = -(std::int64_t{1} << (53 - kHalfRule.significant));
    made[i] =
        std::bit_cast<Doubles>(std::bit_cast<Longs>(total) & kKept) * std::bit_cast<Doubles>(unit);
  }
  WideDoubles wide;
  std::memcpy(&wide, made, sizeof wide);
  Ints present;
  Floats before;
  std::memcpy(&present, presents, sizeof present);
  std::memcpy(&before, c, sizeof before);
  const Floats result =
      present != 0 ? __builtin_convertvector(wide, Floats) : before + 0.0f;  // -0 is lost
  std::memcpy(c, &result, sizeof result);
}

/// The highest exponent of a product in each of Count columns from `from` on, 16 at most, of
/// `width`.
template <unsigned Count>
void highest_exponents(const HalfFactors& a, unsigned row, const HalfFactors& b, unsigned depth,
                       unsigned width, unsigned from, void* top) {
  using Bytes [[gnu::vector_size(16)]] = std::int8_t;
  using Shorts [[gnu::vector_size(16)]] = std::int16_t;
  using WideShorts [[gnu::vector_size(32)]] = std::int16_t;
  using WideInts [[gnu::vector_size(32)]] = std::int32_t;
  Bytes most = Bytes{} + std::int8_t{-128};
  for (unsigned k = 0; k < depth; ++k) {
    Bytes right{};
    std::memcpy(&right, b.exponent + k * width + from, Count);
    const Bytes both = right + a.exponent[row + k];
    most = both > most ? both : most;
  }
  const WideShorts wide = __builtin_convertvector(most, WideShorts);
  Shorts eight[2];
  std::memcpy(eight, &wide, sizeof wide);
  for (unsigned i = 0; i < Count / 8; ++i) {
    const WideInts ints = __builtin_convertvector(eight[i], WideInts);
    std::memcpy(static_cast<std::int32_t*>(top) + 8 * i, &ints, sizeof ints);
  }
}

/// c[j] += the sum over k of a[k] * b[k * N + j]; all of c finite. a: k factors from `row` on. Four
/// columns are one vector.
template <unsigned N>
void half_product_row(const HalfFactors& a, unsigned row, const HalfFactors& b, unsigned depth,
                      float* c) {
  using Floats [[gnu::vector_size(16)]] = float;
  using Ints [[gnu::vector_size(16)]] = std::int32_t;
  constexpr std::int32_t kLeast = -28;  // the least exponent of a product
  constexpr unsigned kVectors = N / 4;
  Ints top[kVectors], sum[kVectors];
  Floats scale[kVectors];
  for (unsigned j = 0; j < N; j += 16)
    highest_exponents<std::min(N, 16U)>(a, row, b, depth, N, j, top + j / 4);
  Ints present[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    present[v] = top[v] >= kLeast;
    Ints word;
    std::memcpy(&word, c + 4 * v, sizeof word);
    const Ints field = word >> 23 & 0xff;
    const Ints own = (field > 1 ? field : Ints{} + 1) - 127;
    const Ints counted = (word & 0x7fffffff) == 0 ? Ints{} + kLeast : own;
    top[v] = counted > top[v] ? counted : top[v];
    const Ints unit = (top[v] > kLeast ? top[v] : Ints{} + kLeast) - kHalfRule.fraction;
    const Ints bits = (127 - unit) << 23;
    std::memcpy(&scale[v], &bits, sizeof bits);
    sum[v] = Ints{};
  }
  // 16 products of less than 2^27 each: 2047 * 2047 * 32 * 16 < 2^31.
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned v = 0; v < kVectors; ++v) {
      Floats right;
      std::memcpy(&right, b.value + k * N + 4 * v, sizeof right);
      sum[v] += __builtin_convertvector(right * a.value[row + k] * scale[v], Ints);
    }
  for (unsigned v = 0; v < kVectors; ++v)
    finish_half_sums(&top[v], &sum[v], &present[v], &scale[v], c + 4 * v);
}

}  // namespace cucpu
