// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tcgen05_elements.hpp: the elements of a and b of tcgen05.mma, in chunks of 16
// bytes, to floats. Every value of these types is a float.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/engine/runtime/small_floats.hpp"

namespace cucpu {

/// fp4 is e2m1 of .kind::mxf4, two in a byte; the other small ones are 16 in a chunk: packed with
/// padding after them in shared memory, one in a byte in tensor memory.
enum class Element : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, fp4, u8, s8 };

constexpr unsigned elements_of_chunk(Element type) {
  switch (type) {
    case Element::f16:
    case Element::bf16:
      return 8;
    case Element::tf32:
      return 4;
    case Element::fp4:
      return 32;
    default:
      return 16;
  }
}

/// The values of all bytes, or of all codes of a smaller type.
inline const std::array<float, 256>& element_values(Element type) {
  using Table = std::array<float, 256>;
  static const std::array<Table, 11> all = [] {
    std::array<Table, 11> made{};
    const auto fill = [&](Element of, auto value) {
      for (std::uint32_t code = 0; code < 256; ++code)
        made[static_cast<std::size_t>(of)][code] = value(code);
    };
    fill(Element::e4m3, [](std::uint32_t c) { return decode_small(c, 4, 3); });
    fill(Element::e5m2, [](std::uint32_t c) { return decode_small(c, 5, 2); });
    fill(Element::e2m3, [](std::uint32_t c) { return decode_small(c, 2, 3); });
    fill(Element::e3m2, [](std::uint32_t c) { return decode_small(c, 3, 2); });
    fill(Element::e2m1, [](std::uint32_t c) { return decode_small(c, 2, 1); });
    fill(Element::fp4, [](std::uint32_t c) { return decode_small(c, 2, 1); });
    fill(Element::u8, [](std::uint32_t c) { return static_cast<float>(c); });
    fill(Element::s8,
         [](std::uint32_t c) { return static_cast<float>(static_cast<std::int8_t>(c)); });
    return made;
  }();
  return all[static_cast<std::size_t>(type)];
}

/// Eight f16 to floats, in vectors that every host has.
[[gnu::always_inline]] inline void decode_halves(const void* from, float* to) {
  using Halves [[gnu::vector_size(16)]] = std::uint16_t;
  using Wide [[gnu::vector_size(32)]] = std::uint32_t;
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
  using Floats [[gnu::vector_size(16)]] = float;
  Halves eight;
  std::memcpy(&eight, from, sizeof eight);
  const Wide wide = __builtin_convertvector(eight, Wide);
  Words four[2];
  std::memcpy(four, &wide, sizeof wide);
  for (unsigned i = 0; i < 2; ++i) {
    constexpr std::uint32_t kBias = 112U << 23;  // the difference of the exponent biases
    const Words size = (four[i] & 0x7fff) << 13;
    const Words special = std::bit_cast<Words>(size >= 0x0f800000U);  // infinities and NaNs
    const Words normal = size + kBias + (special & kBias);
    // A fraction above a power of two, less that power: hosts are slow with subnormal operands.
    const auto least =
        std::bit_cast<Words>(std::bit_cast<Floats>(size + (kBias + (1U << 23))) - 0x1p-14f);
    const Words tiny = std::bit_cast<Words>(size < 0x00800000U);
    const Words bits = (tiny & least) | (~tiny & normal) | (four[i] & 0x8000) << 16;
    std::memcpy(to + 4 * i, &bits, sizeof bits);
  }
}

/// `in_bytes`: e2m1, e2m3 and e3m2 are in bytes of tensor memory, e2m1 in bits 2 to 5.
template <Element Type>
[[gnu::always_inline]] inline void decode_chunk(bool in_bytes, const void* chunk, float* to) {
  if constexpr (Type == Element::f16) {
    decode_halves(chunk, to);
  } else if constexpr (Type == Element::bf16) {
    std::uint16_t halves[8];
    std::memcpy(halves, chunk, sizeof halves);
    for (unsigned e = 0; e < 8; ++e) to[e] = std::bit_cast<float>(std::uint32_t{halves[e]} << 16);
  } else if constexpr (Type == Element::tf32) {
    std::uint32_t words[4];
    std::memcpy(words, chunk, sizeof words);
    for (unsigned e = 0; e < 4; ++e) to[e] = std::bit_cast<float>(words[e] & 0xffffe000);
  } else {
    const std::array<float, 256>& values = element_values(Type);
    constexpr bool kSmall = Type == Element::e2m3 || Type == Element::e3m2 || Type == Element::e2m1;
    std::uint8_t bytes[17];  // one more: codes are read in pairs of bytes
    std::memcpy(bytes, chunk, 16);
    bytes[16] = 0;
    if (Type == Element::fp4 || (kSmall && !in_bytes)) {
      constexpr unsigned kBits = Type == Element::fp4 || Type == Element::e2m1 ? 4 : 6;
      for (unsigned e = 0; e < elements_of_chunk(Type); ++e) {
        const unsigned at = e * kBits / 8;
        const unsigned pair = bytes[at] | static_cast<unsigned>(bytes[at + 1]) << 8;
        to[e] = values[pair >> e * kBits % 8 & ((1U << kBits) - 1)];
      }
    } else {
      constexpr unsigned kShift = Type == Element::e2m1 ? 2 : 0;
      constexpr unsigned kMask = kSmall ? 0x3f >> kShift : 0xff;
      for (unsigned e = 0; e < 16; ++e) to[e] = values[bytes[e] >> kShift & kMask];
    }
  }
}

/// call(std::integral_constant of the type): one instance of its code per type.
template <typename Call>
void with_element(Element type, Call call) {
  const auto as = [&]<Element Type>() { call(std::integral_constant<Element, Type>{}); };
  switch (type) {
    case Element::f16:
      return as.template operator()<Element::f16>();
    case Element::bf16:
      return as.template operator()<Element::bf16>();
    case Element::tf32:
      return as.template operator()<Element::tf32>();
    case Element::e4m3:
      return as.template operator()<Element::e4m3>();
    case Element::e5m2:
      return as.template operator()<Element::e5m2>();
    case Element::e2m3:
      return as.template operator()<Element::e2m3>();
    case Element::e3m2:
      return as.template operator()<Element::e3m2>();
    case Element::e2m1:
      return as.template operator()<Element::e2m1>();
    case Element::fp4:
      return as.template operator()<Element::fp4>();
    case Element::u8:
      return as.template operator()<Element::u8>();
    case Element::s8:
      return as.template operator()<Element::s8>();
  }
}

/// A scale factor: ue8m0, or ue4m3, whose sign does not count.
inline double decode_scale(std::uint32_t code, bool ue8m0) {
  if (!ue8m0) return decode_small(code & 0x7f, 4, 3);
  if (code == 0xff) return std::bit_cast<float>(0x7fffffffU);
  return std::bit_cast<double>(std::uint64_t{code + 1023 - 127} << 52);
}

}  // namespace cucpu
