// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_elements.hpp: access to the elements of matrix fragments, and
// conversion of their values.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/ptx/types.hpp"

namespace cucpu {

/// tf32 is stored in 32 bits.
inline unsigned width_of(ptx::Type t) { return t == ptx::Type::tf32 ? 32 : ptx::bits_of(t); }

inline std::uint64_t element(const std::uint32_t* words, unsigned bits, unsigned index) {
  if (bits == 64) return words[2 * index] | std::uint64_t{words[2 * index + 1]} << 32;
  if (bits == 32) return words[index];
  const unsigned per = 32 / bits;
  return words[index / per] >> (index % per * bits) & ((1u << bits) - 1);
}

inline void set_element(std::uint32_t* words, unsigned bits, unsigned index, std::uint64_t value) {
  if (bits == 64) {
    words[2 * index] = static_cast<std::uint32_t>(value);
    words[2 * index + 1] = static_cast<std::uint32_t>(value >> 32);
  } else if (bits == 32) {
    words[index] = static_cast<std::uint32_t>(value);
  } else {
    const unsigned per = 32 / bits, shift = index % per * bits;
    const std::uint32_t mask = ((1u << bits) - 1) << shift;
    words[index / per] =
        (words[index / per] & ~mask) | (static_cast<std::uint32_t>(value) << shift & mask);
  }
}

inline double decode(ptx::Type t, std::uint64_t bits) {
  switch (t) {
    case ptx::Type::f16:
      return half_to_float(static_cast<std::uint16_t>(bits));
    case ptx::Type::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    case ptx::Type::tf32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) & 0xffffe000u);
    case ptx::Type::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ptx::Type::f64:
      return std::bit_cast<double>(bits);
    case ptx::Type::e4m3:
      return decode_small(static_cast<std::uint32_t>(bits), 4, 3);
    case ptx::Type::e5m2:
      return decode_small(static_cast<std::uint32_t>(bits), 5, 2);
    case ptx::Type::e2m1:
      return decode_small(static_cast<std::uint32_t>(bits), 2, 1);
    case ptx::Type::e2m3:
      return decode_small(static_cast<std::uint32_t>(bits), 2, 3);
    case ptx::Type::e3m2:
      return decode_small(static_cast<std::uint32_t>(bits), 3, 2);
    case ptx::Type::s8:
      return static_cast<std::int8_t>(bits);
    case ptx::Type::s4:
      return static_cast<std::int8_t>(bits << 4) >> 4;
    case ptx::Type::s32:
      return static_cast<std::int32_t>(bits);
    default:
      return static_cast<double>(bits);
  }
}

/// An element of 4, 6 or 8 bits in a byte. Those of 4 bits are in the middle of it, those of 6 bits
/// at its lower end.
inline double decode_byte(ptx::Type t, std::uint64_t bits) {
  return decode(t, t == ptx::Type::e2m1 ? bits >> 2 : bits);
}

/// A scale: .ue8m0 is a power of two, .ue4m3 an e4m3 number without a sign. Both have one NaN.
inline double decode_scale(bool e4m3, std::uint8_t bits) {
  if (e4m3) return decode_small(bits & 0x7f, 4, 3);
  return bits == 0xff ? std::bit_cast<float>(0x7fffffffu) : std::ldexp(1.0, bits - 127);
}

inline std::uint64_t encode(ptx::Type t, double v) {
  if (t == ptx::Type::f64)
    return std::isnan(v) ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(v);
  if (t == ptx::Type::f16) return float_to_half(static_cast<float>(v));
  return std::isnan(v) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(static_cast<float>(v));
}

}  // namespace cucpu
