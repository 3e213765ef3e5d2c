// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/surface.cpp: addresses of surface accesses, formatted stores and reductions
// (suld, sust, sured).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/engine/run/peer_access.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/runtime/reduce.hpp"
#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/texture.hpp"
#include "cpu/engine/runtime/texture_check.hpp"

namespace {

using cucpu::TextureObject;

struct Coordinates {
  std::int64_t x, y, z;  ///< x counts bytes
};

/// The address of `bytes` bytes, or null for an access without effect: out of bounds, or in an
/// unmapped tile of a sparse array. `step`: the alignment of clamped accesses.
std::byte* place(const TextureObject& t, std::uint32_t config, Coordinates at, unsigned bytes,
                 unsigned step) {
  const std::uint32_t shape = config & cucpu::kTextureShape;
  const std::int64_t row = std::int64_t{t.width} * texel_bytes(t);
  const std::int64_t rows = shape == cucpu::kTexture1D ? 1 : std::max(t.height, 1u);
  const std::int64_t slices =
      shape == cucpu::kTexture3D ? std::max(t.depth, 1u) : std::max(t.layers, 1u);
  const bool inside =
      at.x >= 0 && at.x + bytes <= row && at.y >= 0 && at.y < rows && at.z >= 0 && at.z < slices;
  if (!inside) {
    if ((config & cucpu::kSurfaceZero) != 0) return nullptr;
    if ((config & cucpu::kSurfaceClamp) == 0) cucpu_rt_trap(700);
    if (step > row) return nullptr;  // wider than a row
    at.x = std::clamp<std::int64_t>(at.x / step * step, 0, std::max<std::int64_t>(row - step, 0));
    at.y = std::clamp<std::int64_t>(at.y, 0, rows - 1);
    at.z = std::clamp<std::int64_t>(at.z, 0, slices - 1);
  }
  std::byte* const found = t.data + static_cast<std::uint64_t>(at.z) * t.slice_pitch +
                           static_cast<std::uint64_t>(at.y) * t.row_pitch + at.x;
  return cucpu::is_resident(t, found) ? found : nullptr;
}

Coordinates coordinates(std::uint32_t config, std::uint32_t layer, std::uint32_t x, std::uint32_t y,
                        std::uint32_t z, unsigned unit) {
  const std::uint32_t shape = config & cucpu::kTextureShape;
  Coordinates at{std::int64_t{static_cast<std::int32_t>(x)} * unit, static_cast<std::int32_t>(y),
                 shape == cucpu::kTexture3D ? static_cast<std::int32_t>(z) : 0};
  if (shape == cucpu::kTexture1D) at.y = 0;
  if ((config & cucpu::kTextureLayered) != 0) at.z = layer;
  return at;
}

const TextureObject& surface_of(std::uint64_t object, std::uint32_t config, const void* pc) {
  if (object == 0) cucpu_rt_trap(700);
  cucpu::check_texture(object, pc);
  const auto& t = *reinterpret_cast<const TextureObject*>(object);
  cucpu::require_peer_access(t.home, reinterpret_cast<std::uintptr_t>(t.data),
                             (config & cucpu::kSurfaceStore) != 0);
  return t;
}

/// Converts a float to a normalized integer with so many steps; ties towards zero, NaN becomes 0.
std::uint32_t steps(float v, float low, float most) {
  if (v != v) return 0;
  const float x = std::clamp(v, low, 1.0f) * most;
  return static_cast<std::uint32_t>(
      static_cast<std::int32_t>(std::copysign(std::ceil(std::fabs(x) - 0.5f), x)));
}

/// Rounds a float to half precision towards zero.
std::uint16_t half_towards_zero(float v) {
  if (v != v) return 0x7e00;
  const std::uint16_t half = cucpu::float_to_half(v);
  return std::fabs(cucpu::half_to_float(half)) > std::fabs(v) ? half - 1 : half;
}

std::uint32_t unsigned_within(std::uint32_t bits, std::uint32_t most) {
  return std::min(bits, most);
}
std::uint32_t signed_within(std::uint32_t bits, std::int32_t most) {
  return static_cast<std::uint32_t>(std::clamp(static_cast<std::int32_t>(bits), -most - 1, most));
}

/// Converts a component to the format of the surface: normalized and float formats take floats,
/// integer formats take integers and saturate.
std::uint32_t component(const TextureObject& t, std::uint32_t bits) {
  const bool whole = (t.flags & 1) != 0;
  const float v = std::bit_cast<float>(bits);
  switch (t.format) {
    case 1:
      return whole ? unsigned_within(bits, 255) : steps(v, 0, 255);
    case 2:
      return whole ? unsigned_within(bits, 65535) : steps(v, 0, 65535);
    case 8:
      return whole ? signed_within(bits, 127) : steps(v, -1, 127);
    case 9:
      return whole ? signed_within(bits, 32767) : steps(v, -1, 32767);
    case 16:
      return half_towards_zero(v);
    default:
      return bits;
  }
}

}  // namespace

std::uint64_t cucpu_rt_surface(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t x, std::uint32_t y, std::uint32_t z,
                               std::uint32_t bytes) {
  const TextureObject& t = surface_of(object, config, __builtin_return_address(0));
  if (std::byte* at = place(t, config, coordinates(config, layer, x, y, z, 1), bytes, bytes))
    return reinterpret_cast<std::uint64_t>(at);
  std::memset(cucpu::t_outside_surface, 0, sizeof cucpu::t_outside_surface);
  return reinterpret_cast<std::uint64_t>(cucpu::t_outside_surface);
}

void cucpu_rt_surface_store(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                            std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint64_t low,
                            std::uint64_t high) {
  const TextureObject& t =
      surface_of(object, config | cucpu::kSurfaceStore, __builtin_return_address(0));
  const unsigned texel = texel_bytes(t), bytes = cucpu::channel_bytes(t.format);
  std::byte* const at = place(t, config, coordinates(config, layer, x, y, z, texel), texel, texel);
  if (at == nullptr) return;
  cucpu::check_surface(at, texel, cucpu::check::kWrite, __builtin_return_address(0));
  const std::uint64_t words[] = {low & 0xffffffff, low >> 32, high & 0xffffffff, high >> 32};
  for (unsigned k = 0; k < t.channels && k < 4; ++k) {
    const std::uint32_t value = component(t, static_cast<std::uint32_t>(words[k]));
    std::memcpy(at + std::size_t{k} * bytes, &value, bytes);
  }
}

void cucpu_rt_surface_reduce(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                             std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t what,
                             std::uint64_t value) {
  using cucpu::ptx::Type;
  const TextureObject& t =
      surface_of(object, config | cucpu::kSurfaceStore, __builtin_return_address(0));
  const bool wide = (what & cucpu::kSurfaceWide) != 0, is_signed = t.format == 10;
  const unsigned bytes = wide ? 8 : 4;
  std::byte* const at =
      place(t, config, coordinates(config, layer, x, y, z, texel_bytes(t)), bytes, bytes);
  if (at == nullptr) return;
  cucpu::check_surface(at, bytes,
                       cucpu::check::kRead | cucpu::check::kWrite | cucpu::check::kStrong,
                       __builtin_return_address(0));
  const auto op = static_cast<cucpu::ReduceOp>(what & 0xff);
  Type type = wide ? (is_signed ? Type::s64 : Type::u64) : (is_signed ? Type::s32 : Type::u32);
  if (op == cucpu::ReduceOp::bit_and || op == cucpu::ReduceOp::bit_or)
    type = wide ? Type::b64 : Type::b32;
  if (!cucpu::reduce_element(type, op, at, &value)) cucpu_rt_trap(715);
}
