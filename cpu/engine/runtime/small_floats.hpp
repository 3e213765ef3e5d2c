// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/small_floats.hpp: floats of 16 bits and fewer, in portable integer arithmetic.
#pragma once

#include <bit>
#include <cstdint>

namespace cucpu {

/// Decodes a value of an e<E>m<M> format with E <= 5. e4m3: 0x7f is NaN, no infinities; e5m2:
/// IEEE; e2m1, e2m3, e3m2: all finite.
inline float decode_small(std::uint32_t bits, unsigned exponent_bits, unsigned mantissa_bits) {
  const unsigned width = exponent_bits + mantissa_bits;
  const std::uint32_t rest = bits & ((1u << width) - 1);
  const bool negative = (bits >> width & 1) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(rest >> mantissa_bits);
  const std::uint32_t mantissa = rest & ((1u << mantissa_bits) - 1);
  float v = 0;
  if (exponent_bits == 4 && mantissa_bits == 3 && rest == 0x7f) {
    v = std::bit_cast<float>(0x7fffffffu);
  } else if (exponent_bits == 5 && exponent == 31) {
    v = std::bit_cast<float>(mantissa == 0 ? 0x7f800000u : 0x7fffffffu);
  } else if (exponent == 0) {
    v = static_cast<float>(mantissa) *
        std::bit_cast<float>(
            static_cast<std::uint32_t>(127 + 1 - bias - static_cast<int>(mantissa_bits)) << 23);
  } else {
    v = std::bit_cast<float>(static_cast<std::uint32_t>(exponent - bias + 127) << 23 |
                             mantissa << (23 - mantissa_bits));
  }
  return negative ? -v : v;
}

inline float half_to_float(std::uint16_t bits) { return decode_small(bits, 5, 10); }

/// Rounds to nearest even and saturates at the largest finite value of an e<E>m<M> format. The
/// value must not be NaN.
inline std::uint32_t encode_small(float v, unsigned exponent_bits, unsigned mantissa_bits,
                                  std::uint32_t largest) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = bits >> 31 << (exponent_bits + mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t size = bits & 0x7fffffff;
  const int exponent = static_cast<int>(size >> 23) - 127;
  const int lowest = 1 - bias;
  // In units of the last place at this exponent.
  const int shift =
      23 - static_cast<int>(mantissa_bits) + (exponent < lowest ? lowest - exponent : 0);
  std::uint32_t r = 0;
  if (shift < 32) {
    const std::uint64_t mantissa = (size & 0x7fffff) | (size >= 0x800000 ? 0x800000u : 0u);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    std::uint64_t units = (mantissa + half - 1 + (mantissa >> shift & 1)) >> shift;
    if (exponent >= lowest) {
      units += static_cast<std::uint64_t>(exponent - lowest)
               << mantissa_bits;  // the leading one carries into the exponent
    }
    r = units > largest ? largest : static_cast<std::uint32_t>(units);
  }
  if (size == 0x7f800000) r = largest;
  return sign | r;
}

/// Converts to f16 with IEEE rounding; NaN becomes the canonical NaN.
inline std::uint16_t float_to_half(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (size >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and up
  return static_cast<std::uint16_t>(encode_small(v, 5, 10, 0x7bff));
}

inline float brain_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Converts to bf16 with IEEE rounding; NaN becomes the canonical NaN.
inline std::uint16_t float_to_brain(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace cucpu
