// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tensor_sum.hpp: the rounding of sums in a tensor core of the H200. Products
// are exact. The products of a step and the accumulator are aligned to the largest exponent (the
// exponent of a product is the sum of those of its factors) and truncated to a number of bits below
// it. The sum of the truncated values is exact, and truncated again. The PTX manual does not
// specify this; recorded results of an H200 do (tests/ptx/h200).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/ptx/types.hpp"

namespace cucpu {

struct TensorRule {
  int fraction;     ///< bits kept below the largest exponent
  int significant;  ///< bits kept of the sum
};
inline constexpr TensorRule kHalfRule{
    25, 24};  ///< f16, bf16 and tf32; 8-bit floats in mma.sync, which converts them
inline constexpr TensorRule kByteRule{13, 14};  ///< 8-bit floats in wgmma

/// A factor: mantissa * 2^(exponent - bits of its type). Zero when the mantissa is.
struct Factor {
  std::int32_t mantissa = 0, exponent = 0;
};

struct FactorFormat {
  int bits, least;  ///< of fraction; exponent of the smallest normal number
};
inline FactorFormat factor_format(ptx::Type type) {
  using ptx::Type;
  switch (type) {
    case Type::f16:
      return {10, -14};
    case Type::bf16:
      return {7, -126};
    case Type::tf32:
      return {10, -126};
    case Type::e4m3:
      return {3, -6};
    case Type::e5m2:
      return {2, -14};
    default:
      return {0, 0};
  }
}

inline Factor factor_of(double value, FactorFormat format) {
  if (value == 0) return {};
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = std::max(static_cast<int>(bits >> 52 & 0x7ff) - 1023, format.least);
  return {static_cast<std::int32_t>(std::ldexp(value, format.bits - exponent)), exponent};
}

/// value * 2^-shift, truncated towards zero.
inline std::int64_t cut(std::int64_t value, int shift) {
  if (shift <= 0) return value * (std::int64_t{1} << std::min(-shift, 40));
  if (shift > 62) return 0;
  return value < 0 ? -(-value >> shift) : value >> shift;
}

/// c + the sum of x[k] * y[k]; `bits`: fraction bits of a product. All are finite.
inline float tensor_sum(const Factor* x, const Factor* y, unsigned n, int bits, float c,
                        TensorRule rule) {
  int top = std::numeric_limits<int>::min();
  for (unsigned k = 0; k < n; ++k) {
    const bool present = x[k].mantissa != 0 && y[k].mantissa != 0;
    top = std::max(top, present ? x[k].exponent + y[k].exponent : std::numeric_limits<int>::min());
  }
  const auto word = std::bit_cast<std::uint32_t>(c);
  const int field = static_cast<int>(word >> 23 & 0xff);
  const int exponent = std::max(field, 1) - 127;
  std::int64_t mantissa = (word & 0x7fffff) | (field != 0 ? 0x800000 : 0);
  if (mantissa != 0) top = std::max(top, exponent);
  if (top == std::numeric_limits<int>::min()) return 0;
  if (word >> 31 != 0) mantissa = -mantissa;
  std::int64_t total = cut(mantissa, top - exponent + 23 - rule.fraction);
  for (unsigned k = 0; k < n; ++k) {
    const std::int64_t product = std::int64_t{x[k].mantissa} * y[k].mantissa;
    if (product != 0)
      total += cut(product, top - x[k].exponent - y[k].exponent + bits - rule.fraction);
  }
  if (total == 0) return 0;
  const auto size = static_cast<std::uint64_t>(total < 0 ? -total : total);
  const int unit = top - rule.fraction;
  const int drop =
      std::max({static_cast<int>(std::bit_width(size)) - rule.significant, -149 - unit, 0});
  const double kept = drop > 63 ? 0.0 : static_cast<double>(size >> drop);
  return static_cast<float>(std::ldexp(total < 0 ? -kept : kept, unit + drop));
}

}  // namespace cucpu
