// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/types.hpp: the fundamental and packed types of PTX, and the state spaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cucpu::ptx {

/// Interpretation of a type's bits.
enum class Class : std::uint8_t {
  none,
  pred,
  bits,
  unsigned_int,
  signed_int,
  floating,
  packed,
  opaque
};

// name, bits, class. Packed types (f16x2, e4m3x2, …) are handled as bits.
// clang-format off
#define CUCPU_PTX_TYPES(X) \
  X(pred, 1, pred) X(b8, 8, bits) X(b16, 16, bits) X(b32, 32, bits) X(b64, 64, bits) \
  X(b128, 128, bits) X(u8, 8, unsigned_int) X(u16, 16, unsigned_int) X(u32, 32, unsigned_int) \
  X(u64, 64, unsigned_int) X(s8, 8, signed_int) X(s16, 16, signed_int) X(s32, 32, signed_int) \
  X(s64, 64, signed_int) X(f16, 16, floating) X(bf16, 16, floating) X(f32, 32, floating) \
  X(f64, 64, floating) X(tf32, 32, floating) X(f16x2, 32, packed) X(bf16x2, 32, packed) \
  X(f32x2, 64, packed) X(u16x2, 32, packed) X(s16x2, 32, packed) X(u8x4, 32, packed) \
  X(s8x4, 32, packed) X(e4m3, 8, packed) X(e5m2, 8, packed) X(e4m3x2, 16, packed) \
  X(e5m2x2, 16, packed) X(e2m1x2, 8, packed) X(e2m3x2, 16, packed) X(e3m2x2, 16, packed) \
  X(ue8m0x2, 16, packed) X(e4m3x4, 32, packed) X(e5m2x4, 32, packed) X(e2m1x4, 16, packed) \
  X(e2m3x4, 32, packed) X(e3m2x4, 32, packed) X(e2m1, 4, packed) X(e2m3, 6, packed) \
  X(e3m2, 6, packed) X(ue8m0, 8, packed) X(ue4m3, 8, packed) X(b1, 1, packed) X(s4, 4, packed) \
  X(u4, 4, packed) X(s2, 2, packed) X(u2, 2, packed) X(s2f6x2, 16, packed) \
  X(e2m1p4x4, 32, packed) X(ue8m0x4, 32, packed) X(ue5m3x2, 16, packed) \
  X(texref, 64, opaque) X(samplerref, 64, opaque) X(surfref, 64, opaque)
// clang-format on

enum class Type : std::uint8_t {
  none,
#define X(name, bits, kind) name,
  CUCPU_PTX_TYPES(X)
#undef X
};

[[nodiscard]] constexpr unsigned bits_of(Type type) {
  switch (type) {
#define X(name, bits, kind) \
  case Type::name:          \
    return bits;
    CUCPU_PTX_TYPES(X)
#undef X
    case Type::none:
      break;
  }
  return 0;
}

/// Size in memory; a sub-byte type occupies one byte. Predicates are not stored in memory.
[[nodiscard]] constexpr unsigned bytes_of(Type type) { return (bits_of(type) + 7) / 8; }

[[nodiscard]] constexpr Class class_of(Type type) {
  switch (type) {
#define X(name, bits, kind) \
  case Type::name:          \
    return Class::kind;
    CUCPU_PTX_TYPES(X)
#undef X
    case Type::none:
      break;
  }
  return Class::none;
}

[[nodiscard]] constexpr std::string_view name_of(Type type) {
  switch (type) {
#define X(name, bits, kind) \
  case Type::name:          \
    return #name;
    CUCPU_PTX_TYPES(X)
#undef X
    case Type::none:
      break;
  }
  return "none";
}

/// The type with a name (without the dot).
[[nodiscard]] constexpr std::optional<Type> find_type(std::string_view name) {
#define X(id, bits, kind) \
  if (name == #id) return Type::id;
  CUCPU_PTX_TYPES(X)
#undef X
  return std::nullopt;
}

enum class Space : std::uint8_t { generic, reg, param, local, shared, global, constant };

[[nodiscard]] constexpr std::string_view name_of(Space space) {
  constexpr std::string_view names[] = {"generic", "reg",    "param", "local",
                                        "shared",  "global", "const"};
  return names[static_cast<int>(space)];
}

}  // namespace cucpu::ptx
