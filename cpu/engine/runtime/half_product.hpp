// cpu/engine/runtime/half_product.hpp: mma of halves into floats, the case that matters, with
// vectors: the sums of tensor_sum.hpp (kHalfRule) for one row of the result at a time. Products of
// halves are exact in a float, and so are they after a shift; a conversion to an integer cuts them
// as a tensor core does.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "cpu/engine/runtime/tensor_sum.hpp"

namespace cucpu {

inline constexpr unsigned kHalfProductSize = 32, kHalfProductDepth = 16;

/// One factor, spread out: k runs along the rows of `value` for a, n along them for b.
struct HalfFactors {
  float value[kHalfProductSize * kHalfProductDepth];
  std::int32_t exponent[kHalfProductSize * kHalfProductDepth];  ///< kNoHalf for zero
};

inline constexpr std::int32_t kNoHalf = -1000;

/// False for infinities and NaN.
inline bool set_half(HalfFactors& to, unsigned at, std::uint32_t half) {
  constexpr float kExponents = 0x1p112f;  // what a half's exponent lacks in a float's field
  const float size = std::bit_cast<float>((half & 0x7fff) << 13) * kExponents;
  to.value[at] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | (half & 0x8000) << 16);
  const auto field = static_cast<std::int32_t>(half >> 10 & 31);
  to.exponent[at] = (half & 0x7fff) == 0 ? kNoHalf : std::max(field, 1) - 15;
  return field != 31;
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
  for (Ints& t : top) t = Ints{} + kNoHalf;
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned v = 0; v < kVectors; ++v) {
      Ints right;
      std::memcpy(&right, b.exponent + k * N + 4 * v, sizeof right);
      const Ints both = right + a.exponent[row + k];
      top[v] = both > top[v] ? both : top[v];
    }
  Ints present[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    present[v] = top[v] >= kLeast;
    Ints word;
    std::memcpy(&word, c + 4 * v, sizeof word);
    const Ints field = word >> 23 & 0xff;
    const Ints own = (field > 1 ? field : Ints{} + 1) - 127;
    const Ints counted = (word & 0x7fffffff) == 0 ? Ints{} + kNoHalf : own;
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
  for (unsigned j = 0; j < N; ++j) {
    if (present[j / 4][j % 4] == 0) {
      c[j] += 0.0f;  // -0 is lost
      continue;
    }
    const double unit = std::bit_cast<double>(
        static_cast<std::uint64_t>(1023 + top[j / 4][j % 4] - kHalfRule.fraction) << 52);
    const auto own = static_cast<std::int64_t>(static_cast<double>(c[j]) *
                                               static_cast<double>(scale[j / 4][j % 4]));
    const auto total = static_cast<double>(own + sum[j / 4][j % 4]);
    // 24 of 53 significant bits stay.
    constexpr std::uint64_t kKept = ~((std::uint64_t{1} << (53 - kHalfRule.significant)) - 1);
    c[j] = static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(total) & kKept) *
                              unit);
  }
}

}  // namespace cucpu
