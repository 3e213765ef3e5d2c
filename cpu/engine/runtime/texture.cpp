// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/texture.cpp: texture fetches, as the CUDA programming guide describes them.
#include "cpu/engine/runtime/texture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/engine/run/peer_access.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/texture_check.hpp"

namespace {

using cucpu::TextureObject;

struct Texel {
  float f[4] = {0, 0, 0, 0};
  std::uint32_t i[4] = {0, 0, 0, 0};
  bool integer = false;
  bool resident = true;
};

constexpr std::uint32_t kSrgb = 16;  // of TextureObject::flags

/// Rounds to so many significant bits, none of them below 2^lowest.
float rounded(float v, int bits, int lowest) {
  if (!std::isfinite(v) || v == 0) return v;
  const int last = std::max(std::ilogb(v) - bits + 1, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(v, -last)), last);
}

/// The border color, converted to the format of the texels.
float border_channel(const TextureObject& t, float v) {
  const auto steps = [v](float low, float most) {
    const float x = std::clamp(v, low, 1.0f) * most;
    return std::copysign(std::ceil(std::fabs(x) - 0.5f), x) / most;
  };
  switch (t.format) {
    case 1:
      return steps(0, 255);
    case 2:
      return steps(0, 65535);
    case 8:
      return steps(-1, 127);
    case 9:
      return steps(-1, 32767);
    case 16:
      return rounded(v, 11, -24);
    default:
      return v;
  }
}

Texel border_of(const TextureObject& t, bool integer) {
  Texel v;
  v.integer = integer;
  for (unsigned k = 0; k < t.channels && k < 4; ++k) {
    v.f[k] = border_channel(t, t.border[k]);
    v.i[k] = std::bit_cast<std::uint32_t>(t.border[k]);
    if (!integer && (t.format == 8 || t.format == 9))
      v.i[k] =
          static_cast<std::uint32_t>(std::lround(v.f[k] * (t.format == 8 ? 127.0f : 32767.0f)));
  }
  return v;
}

/// The hardware's table of sRGB values has eight significant bits.
float from_srgb(float v) {
  return rounded(v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f), 8, -30);
}

Texel texel_at(const TextureObject& t, std::int64_t x, std::int64_t y, std::int64_t z) {
  const unsigned bytes = cucpu::channel_bytes(t.format);
  const std::byte* at = t.data + static_cast<std::uint64_t>(z) * t.slice_pitch +
                        static_cast<std::uint64_t>(y) * t.row_pitch +
                        static_cast<std::uint64_t>(x) * bytes * t.channels;
  Texel v;
  v.resident = cucpu::is_resident(t, at);
  if (v.resident) cucpu::check_texel(at, std::size_t{bytes} * t.channels);
  const bool raw = (t.flags & 1) != 0;
  for (unsigned k = 0; k < t.channels && k < 4; ++k) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at + std::size_t{k} * bytes, bytes);
    switch (t.format) {
      case 1:
        v.i[k] = bits, v.f[k] = static_cast<float>(bits) / 255.0f, v.integer = raw;
        if ((t.flags & kSrgb) != 0 && k < 3) v.f[k] = from_srgb(v.f[k]);
        break;
      case 2:
        v.i[k] = bits, v.f[k] = static_cast<float>(bits) / 65535.0f, v.integer = raw;
        break;
      case 8: {
        const auto s = static_cast<std::int8_t>(bits);
        v.i[k] = static_cast<std::uint32_t>(std::int32_t{s});
        v.f[k] = std::max(static_cast<float>(s) / 127.0f, -1.0f);
        v.integer = raw;
        break;
      }
      case 9: {
        const auto s = static_cast<std::int16_t>(bits);
        v.i[k] = static_cast<std::uint32_t>(std::int32_t{s});
        v.f[k] = std::max(static_cast<float>(s) / 32767.0f, -1.0f);
        v.integer = raw;
        break;
      }
      case 16:
        v.f[k] = cucpu::half_to_float(static_cast<std::uint16_t>(bits));
        break;
      case 32:
        v.f[k] = std::bit_cast<float>(bits);
        break;
      default:
        v.i[k] = bits, v.integer = true;
        break;
    }
  }
  return v;
}

/// Applies an addressing mode to a texel index; -1: the border.
std::int64_t wrap_index(std::int64_t i, std::int64_t n, std::uint32_t mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case 0:
      return (i % n + n) % n;
    case 2: {
      const std::int64_t m = (i % (2 * n) + 2 * n) % (2 * n);
      return m < n ? m : 2 * n - 1 - m;
    }
    case 3:
      return -1;
    default:
      return std::clamp<std::int64_t>(i, 0, n - 1);
  }
}

/// The position of a coordinate between two texels: the weight of the second, in 256ths as in the
/// hardware.
struct Axis {
  std::int64_t first = 0, second = 0;
  int weight = 0;
};

/// As on an H200 (tests/python/ptx/texture_values.py): normalized coordinates keep 21 bits
/// after the point, positions between texels are rounded to 8.
Axis axis_of(const TextureObject& t, unsigned dim, float v, std::uint32_t size, bool linear,
             int offset) {
  const auto n = static_cast<std::int64_t>(std::max(size, 1u));
  std::uint32_t mode = t.address[dim];
  const bool normalized = (t.flags & 2) != 0;
  if (!normalized && (mode == 0 || mode == 2)) mode = 1;
  double at = v == v ? std::clamp(static_cast<double>(v), -1e12, 1e12) : 0.0;
  if (normalized) {
    constexpr double kSteps = 1 << 21;
    at = std::floor(at * kSteps) / kSteps;
    if (mode == 0) at -= std::floor(at);
    if (mode == 2) at -= 2 * std::floor(at / 2);
    at *= static_cast<double>(n);
  }
  at += offset;
  Axis a;
  if (!linear) {
    a.first = wrap_index(static_cast<std::int64_t>(std::floor(at)), n, mode);
    return a;
  }
  const auto place = static_cast<std::int64_t>(std::floor((at - 0.5) * 256 + 0.5));
  a.first = wrap_index(place >> 8, n, mode);
  a.second = wrap_index((place >> 8) + 1, n, mode);
  a.weight = mode == 1 && a.first == a.second ? 0 : static_cast<int>(place & 255);
  return a;
}

Texel fetch(const TextureObject& t, std::int64_t x, std::int64_t y, std::int64_t z) {
  if (x < 0 || y < 0 || z < 0) return border_of(t, (t.flags & 1) != 0);
  return texel_at(t, x, y, z);
}

/// Divides a weight (of 256) between two texels: the second gets its rounded part, the first the
/// rest. Ties are rounded towards the second column, the first slice, and between rows towards the
/// first row in the first column and the second row in the second column.
struct Shares {
  int first, second;
  Shares(int whole, int weight, bool halves_to_second = true)
      : first{whole - ((whole * weight + (halves_to_second ? 128 : 127)) >> 8)},
        second{whole - first} {}
};

/// Whether texels of the format can be filtered: 32-bit integers cannot.
bool can_mix(const TextureObject& t) { return t.format != 3 && t.format != 10; }

/// Integers of 8 and 16 bits that are not normalized: filtered values are rounded to integers.
bool is_whole(const TextureObject& t) { return (t.flags & 1) != 0 && t.format < 16; }

/// A weighted sum of texels.
class Sum {
 public:
  void add(const Texel& texel, int share, const TextureObject& t) {
    if (share == 0) return;
    resident_ = resident_ && texel.resident;
    for (unsigned k = 0; k < 4; ++k) {
      double value = texel.f[k];
      // Signed components are filtered as 16 bits; only the result is clamped to -1.
      const auto whole = static_cast<std::int32_t>(texel.i[k]);
      if (t.format == 8) value = std::trunc(whole * 32767.0 / 127) / 32767;
      if (t.format == 9) value = whole / 32767.0;
      if (is_whole(t)) value = whole;
      sum_[k] += share * value / 256;
    }
  }
  /// The filtered value: 16 bits or half precision, except for 32-bit floats.
  [[nodiscard]] Texel texel(const TextureObject& t) const {
    Texel v;
    v.integer = is_whole(t);
    v.resident = resident_;
    for (unsigned k = 0; k < 4; ++k) {
      v.i[k] = static_cast<std::uint32_t>(static_cast<std::int64_t>(std::floor(sum_[k] + 0.5)));
      const auto steps = [&](double most) {
        return static_cast<float>(std::floor(sum_[k] * most + 0.5) / most);
      };
      switch (t.format) {
        case 1:
        case 2:
          v.f[k] = steps(65535);
          break;
        case 8:
        case 9:
          v.f[k] = std::max(steps(32767), -1.0f);
          break;
        case 16:
          v.f[k] = rounded(static_cast<float>(sum_[k]), 11, -24);
          break;
        default:
          v.f[k] = static_cast<float>(sum_[k]);
      }
    }
    return v;
  }

 private:
  double sum_[4] = {0, 0, 0, 0};
  bool resident_ = true;
};

struct Face {
  unsigned index;
  float s, t;
};

Face cube_face(float x, float y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  Face f{};
  float major = 0, s = 0, t = 0;
  if (ax >= ay && ax >= az) {
    f.index = x >= 0 ? 0 : 1, major = ax, s = x >= 0 ? -z : z, t = -y;
  } else if (ay >= az) {
    f.index = y >= 0 ? 2 : 3, major = ay, s = x, t = y >= 0 ? z : -z;
  } else {
    f.index = z >= 0 ? 4 : 5, major = az, s = z >= 0 ? x : -x, t = -y;
  }
  f.s = (s / major + 1) / 2;
  f.t = (t / major + 1) / 2;
  return f;
}

/// The offset operand along an axis, in texels.
int offset_of(std::uint32_t config, unsigned dim) {
  const int bits = static_cast<int>(config >> (cucpu::kTextureOffset + 4 * dim) & 15);
  return bits < 8 ? bits : bits - 16;
}

bool is_filtered(const TextureObject& t) { return t.filter == 1 && can_mix(t); }

/// A fetch with integer coordinates, as on an H200 (tests/python/ptx/test_texture_forms.py): with a
/// level operand coordinates are clamped, otherwise texels out of bounds are zero, for every
/// addressing mode. All texels of a one-dimensional array are zero (such fetches are for linear
/// memory).
Texel fetch_at(const TextureObject& t, std::uint32_t config, std::uint32_t layer, std::uint32_t xb,
               std::uint32_t yb, std::uint32_t zb) {
  const std::uint32_t shape = config & cucpu::kTextureShape;
  const bool layered = (config & cucpu::kTextureLayered) != 0;
  const bool clamped = (config & cucpu::kTextureNamesLevel) != 0;
  bool inside = clamped || shape != cucpu::kTexture1D || layered || t.home == nullptr;
  const auto index = [&](std::uint32_t bits, std::uint32_t size, unsigned dim) {
    const std::int64_t at = std::int64_t{static_cast<std::int32_t>(bits)} + offset_of(config, dim);
    const std::int64_t last = std::int64_t{std::max(size, 1u)} - 1;
    inside = inside && (clamped || (at >= 0 && at <= last));
    return std::clamp<std::int64_t>(at, 0, last);
  };
  const std::int64_t x = index(xb, t.width, 0);
  const std::int64_t y = shape == cucpu::kTexture1D ? 0 : index(yb, t.height, 1);
  std::int64_t z = shape == cucpu::kTexture3D ? index(zb, t.depth, 2) : 0;
  if (layered) z = std::min<std::int64_t>(layer, std::max(t.layers, 1u) - 1);
  return inside ? fetch(t, x, y, z) : Texel{};
}

/// The three axes of a fetch with float coordinates.
struct Place {
  Axis x, y, z;
  Place(const TextureObject& t, std::uint32_t config, std::uint32_t layer, std::uint32_t xb,
        std::uint32_t yb, std::uint32_t zb, bool linear) {
    const std::uint32_t shape = config & cucpu::kTextureShape;
    const bool layered = (config & cucpu::kTextureLayered) != 0;
    float fx = std::bit_cast<float>(xb), fy = std::bit_cast<float>(yb);
    const float fz = std::bit_cast<float>(zb);
    std::int64_t slice = layered ? layer : 0;
    if (shape == cucpu::kTextureCube) {
      const Face f = cube_face(fx, fy, fz);
      slice = slice * 6 + f.index;
      fx = f.s, fy = f.t;
    }
    x = axis_of(t, 0, fx, t.width, linear, offset_of(config, 0));
    if (shape != cucpu::kTexture1D) y = axis_of(t, 1, fy, t.height, linear, offset_of(config, 1));
    // The hardware filters across the edge of a row: half of the weight is border.
    if (shape == cucpu::kTexture1D && linear && !layered && t.address[1] == 3) y = {-1, 0, 128};
    if (shape == cucpu::kTexture3D) {
      z = axis_of(t, 2, fz, t.depth, linear, offset_of(config, 2));
    } else {
      slice = std::clamp<std::int64_t>(slice, 0, std::max<std::int64_t>(t.layers, 1) - 1);
      z = {slice, slice, 0};
    }
  }
};

Texel gather(const TextureObject& t, std::uint32_t config, std::uint32_t layer, std::uint32_t xb,
             std::uint32_t yb, std::uint32_t zb) {
  const Place p{t, config, layer, xb, yb, zb, true};
  const unsigned component = config >> 8 & 3;
  const Texel corners[4] = {
      fetch(t, p.x.first, p.y.second, p.z.first), fetch(t, p.x.second, p.y.second, p.z.first),
      fetch(t, p.x.second, p.y.first, p.z.first), fetch(t, p.x.first, p.y.first, p.z.first)};
  Texel v;
  for (unsigned k = 0; k < 4; ++k)
    v.f[k] = corners[k].f[component], v.i[k] = corners[k].i[component],
    v.resident = v.resident && corners[k].resident;
  v.integer = corners[0].integer;
  return v;
}

/// Adds the texels around a position to a sum, with total weight `whole` of 256, divided along z,
/// then x, then y.
void add_filtered(const TextureObject& t, const Place& p, int whole, Sum& sum) {
  const Shares slices{whole, p.z.weight, false};
  const auto slice = [&](std::int64_t z, int share) {
    const Shares columns{share, p.x.weight};
    const auto column = [&](std::int64_t x, int part, bool first) {
      const Shares rows{part, p.y.weight, !first};
      if (rows.first != 0) sum.add(fetch(t, x, p.y.first, z), rows.first, t);
      if (rows.second != 0) sum.add(fetch(t, x, p.y.second, z), rows.second, t);
    };
    if (columns.first != 0) column(p.x.first, columns.first, true);
    if (columns.second != 0) column(p.x.second, columns.second, false);
  };
  slice(p.z.first, slices.first);
  if (slices.second != 0) slice(p.z.second, slices.second);
}

/// One fetch from one level.
Texel sample(const TextureObject& t, std::uint32_t config, std::uint32_t layer, std::uint32_t xb,
             std::uint32_t yb, std::uint32_t zb) {
  if ((config & cucpu::kTextureIntegerCoordinates) != 0)
    return fetch_at(t, config, layer, xb, yb, zb);
  if ((config & cucpu::kTextureGather) != 0) return gather(t, config, layer, xb, yb, zb);
  const bool linear = is_filtered(t);
  const Place p{t, config, layer, xb, yb, zb, linear};
  if (!linear) return fetch(t, p.x.first, p.y.first, p.z.first);
  Sum sum;
  add_filtered(t, p, 256, sum);
  return sum.texel(t);
}

/// Fetches from a mipmap at a level of detail with 8 fraction bits.
Texel sample_level(const TextureObject& t, float lod, std::uint32_t config, std::uint32_t layer,
                   std::uint32_t xb, std::uint32_t yb, std::uint32_t zb) {
  const float last = static_cast<float>(t.level_count - 1);
  float at = lod == lod ? lod + t.level_bias : 0.0f;
  at = std::clamp(std::clamp(at, t.level_min, std::max(t.level_min, t.level_max)), 0.0f, last);
  if (t.level_filter == 0)
    return sample(t.levels[static_cast<std::uint32_t>(std::floor(at + 0.5f))], config, layer, xb,
                  yb, zb);
  const float low = std::floor(at);
  const int weight = static_cast<int>((at - low) * 256.0f);
  const auto level = static_cast<std::uint32_t>(low);
  const TextureObject& near = t.levels[level];
  constexpr std::uint32_t kPlain = cucpu::kTextureIntegerCoordinates | cucpu::kTextureGather;
  if (weight == 0 || (config & kPlain) != 0 || !can_mix(near))
    return sample(near, config, layer, xb, yb, zb);
  const TextureObject& far = t.levels[level + 1];
  const bool linear = is_filtered(near);
  Sum sum;
  add_filtered(near, {near, config, layer, xb, yb, zb, linear}, 256 - weight, sum);
  add_filtered(far, {far, config, layer, xb, yb, zb, linear}, weight, sum);
  return sum.texel(near);
}

}  // namespace

std::uint64_t cucpu_rt_texture(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t xb, std::uint32_t yb, std::uint32_t zb,
                               std::uint32_t level) {
  if (object == 0) cucpu_rt_trap(700);
  cucpu::check_texture(object, __builtin_return_address(0));
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  cucpu::require_peer_access(t.home, reinterpret_cast<std::uintptr_t>(t.data), false);
  const Texel v = t.levels == nullptr
                      ? sample(t, config, layer, xb, yb, zb)
                      : sample_level(t, std::bit_cast<float>(level), config, layer, xb, yb, zb);
  if ((config & cucpu::kTextureResident) != 0) return v.resident ? 1 : 0;
  if ((config & cucpu::kTextureHalves) != 0) {
    std::uint64_t halves = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const auto half =
          v.integer ? static_cast<std::uint16_t>(v.i[k]) : cucpu::float_to_half(v.f[k]);
      halves |= std::uint64_t{half} << (16 * k);
    }
    return halves;
  }
  const unsigned first = (config & cucpu::kTextureHigh) != 0 ? 2 : 0;
  const auto word = [&](unsigned k) {
    return std::uint64_t{v.integer ? v.i[k] : std::bit_cast<std::uint32_t>(v.f[k])};
  };
  return word(first) | word(first + 1) << 32;
}

std::uint32_t cucpu_rt_texture_level(std::uint64_t object, std::uint32_t config, std::uint32_t xa,
                                     std::uint32_t ya, std::uint32_t za, std::uint32_t xb,
                                     std::uint32_t yb, std::uint32_t zb) {
  if (object == 0) cucpu_rt_trap(700);
  cucpu::check_texture(object, __builtin_return_address(0));
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  const std::uint32_t shape = config & cucpu::kTextureShape;
  // The number of texels of the base level per step; the larger of the two gradients counts.
  const auto texels = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    float dx = std::bit_cast<float>(x), dy = std::bit_cast<float>(y), dz = std::bit_cast<float>(z);
    if (shape == cucpu::kTextureCube) {  // one unit of direction is half the width of a face
      const float half = static_cast<float>(t.width) / 2;
      return std::sqrt(dx * dx + dy * dy + dz * dz) * half;
    }
    if ((t.flags & 2) != 0) {
      dx *= static_cast<float>(t.width), dy *= static_cast<float>(t.height);
      dz *= static_cast<float>(t.depth);
    }
    if (shape == cucpu::kTexture1D) dy = 0;
    if (shape != cucpu::kTexture3D) dz = 0;
    return std::sqrt(dx * dx + dy * dy + dz * dz);
  };
  const float most = std::max(texels(xa, ya, za), texels(xb, yb, zb));
  return std::bit_cast<std::uint32_t>(most > 0 ? std::log2(most) : -1000.0f);
}

// As on an H200 (h200/surface_traps.xz and test_texture_forms.py): layers count as depth, except
// for cubemap textures; a one-dimensional texture has one row, or a row for each layer and no
// depth, and such a surface has none.
std::uint32_t cucpu_rt_texture_query(std::uint64_t object, std::uint32_t which,
                                     std::uint32_t level) {
  if (object == 0) cucpu_rt_trap(700);
  cucpu::check_texture(object, __builtin_return_address(0));
  const TextureObject& whole = *reinterpret_cast<const TextureObject*>(object);
  const TextureObject& t =
      whole.levels == nullptr ? whole : whole.levels[std::min(level, whole.level_count - 1)];
  const std::uint32_t layers = !t.is_cube || t.is_surface ? t.layers : t.layers / 6;
  const bool rows = !t.is_surface && t.height == 0;
  const std::uint32_t height = rows ? std::max(layers, 1u) : t.height;
  const std::uint32_t depth = rows || (t.is_cube && !t.is_surface && layers == 1) ? 0 : layers;
  const std::uint32_t answers[] = {t.width,
                                   height,
                                   t.layers == 0 ? t.depth : depth,
                                   layers,
                                   (t.flags & 2) != 0 ? 1u : 0u,
                                   t.format,
                                   t.channels,
                                   whole.level_count};
  return which < 8 ? answers[which] : 0;
}
