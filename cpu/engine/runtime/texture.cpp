// cpu/engine/runtime/texture.cpp: texture fetches and surface addresses, as the CUDA programming
// guide describes them.
#include "cpu/engine/runtime/texture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/runtime/small_floats.hpp"

namespace {

using cucpu::TextureObject;

struct Texel {
  float f[4] = {0, 0, 0, 0};
  std::uint32_t i[4] = {0, 0, 0, 0};
  bool integer = false;
};

unsigned channel_bytes(std::uint32_t format) {
  switch (format) {
    case 1:
    case 8:
      return 1;
    case 2:
    case 9:
    case 16:
      return 2;
    default:
      return 4;
  }
}

Texel border_of(const TextureObject& t, bool integer) {
  Texel v;
  v.integer = integer;
  for (unsigned k = 0; k < 4; ++k) {
    v.f[k] = t.border[k];
    v.i[k] = std::bit_cast<std::uint32_t>(t.border[k]);
  }
  return v;
}

Texel texel_at(const TextureObject& t, std::int64_t x, std::int64_t y, std::int64_t z) {
  const unsigned bytes = channel_bytes(t.format);
  const std::byte* at = t.data + static_cast<std::uint64_t>(z) * t.slice_pitch +
                        static_cast<std::uint64_t>(y) * t.row_pitch +
                        static_cast<std::uint64_t>(x) * bytes * t.channels;
  Texel v;
  const bool raw = (t.flags & 1) != 0;
  for (unsigned k = 0; k < t.channels && k < 4; ++k) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at + std::size_t{k} * bytes, bytes);
    switch (t.format) {
      case 1:
        v.i[k] = bits, v.f[k] = static_cast<float>(bits) / 255.0f, v.integer = raw;
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

/// A texel index under an addressing mode; -1: the border.
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

/// Largest whole number below v, kept inside what 64 bits hold; NaN counts as 0.
std::int64_t whole(float v) {
  if (!(v == v)) return 0;
  return static_cast<std::int64_t>(std::clamp(std::floor(static_cast<double>(v)), -1e15, 1e15));
}

struct Axis {
  std::int64_t first = 0, second = 0;
  float weight = 0;  ///< of `second`
};

Axis axis_of(const TextureObject& t, unsigned dim, float v, std::uint32_t size, bool linear) {
  const auto n = static_cast<std::int64_t>(std::max(size, 1u));
  std::uint32_t mode = t.address[dim];
  const bool normalized = (t.flags & 2) != 0;
  if (!normalized && (mode == 0 || mode == 2)) mode = 1;
  float at = v;
  if (normalized) {
    if (mode == 0) at = v - std::floor(v);
    if (mode == 2) {
      const float turns = std::floor(v), rest = v - turns;
      at = static_cast<std::int64_t>(turns) % 2 == 0 ? rest : 1.0f - rest;
    }
    at *= static_cast<float>(n);
  }
  Axis a;
  if (!linear) {
    a.first = wrap_index(whole(at), n, mode);
    return a;
  }
  const float shifted = at - 0.5f;
  const std::int64_t low = whole(shifted);
  // The hardware has 8 bits of weight.
  a.weight = std::round((shifted - std::floor(shifted)) * 256.0f) / 256.0f;
  a.first = wrap_index(low, n, mode);
  a.second = wrap_index(low + 1, n, mode);
  return a;
}

Texel fetch(const TextureObject& t, std::int64_t x, std::int64_t y, std::int64_t z) {
  if (x < 0 || y < 0 || z < 0) return border_of(t, (t.flags & 1) != 0);
  return texel_at(t, x, y, z);
}

Texel mix(const Texel& a, const Texel& b, float w) {
  Texel r = a;
  for (unsigned k = 0; k < 4; ++k) r.f[k] = a.f[k] * (1.0f - w) + b.f[k] * w;
  return r;
}

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

/// One fetch from one level.
Texel sample(const TextureObject& t, std::uint32_t config, std::uint32_t layer, std::uint32_t xb,
             std::uint32_t yb, std::uint32_t zb) {
  const std::uint32_t shape = config & cucpu::kTextureShape;
  Texel v;
  if ((config & cucpu::kTextureIntegerCoordinates) != 0) {
    const auto index = [&](std::uint32_t bits, std::uint32_t size, unsigned dim) {
      const std::uint32_t mode = t.address[dim] == 3 ? 3u : 1u;
      return wrap_index(static_cast<std::int32_t>(bits), std::max(size, 1u), mode);
    };
    const std::int64_t x = index(xb, t.width, 0);
    const std::int64_t y = shape == cucpu::kTexture1D ? 0 : index(yb, t.height, 1);
    std::int64_t z = shape == cucpu::kTexture3D ? index(zb, t.depth, 2) : 0;
    if ((config & cucpu::kTextureLayered) != 0)
      z = std::min<std::int64_t>(layer, std::max(t.layers, 1u) - 1);
    v = fetch(t, x, y, z);
  } else {
    float x = std::bit_cast<float>(xb), y = std::bit_cast<float>(yb);
    const float z = std::bit_cast<float>(zb);
    std::int64_t slice = 0;
    if ((config & cucpu::kTextureLayered) != 0) slice = layer;
    if (shape == cucpu::kTextureCube) {
      const Face f = cube_face(x, y, z);
      slice = slice * 6 + f.index;
      x = f.s, y = f.t;
    }
    if (shape != cucpu::kTexture3D)
      slice = std::clamp<std::int64_t>(slice, 0, std::max<std::int64_t>(t.layers, 1) - 1);
    const bool gather = (config & cucpu::kTextureGather) != 0;
    const bool linear =
        gather || (t.filter == 1 && !(t.flags & 1 && t.format != 32 && t.format != 16));
    const Axis ax = axis_of(t, 0, x, t.width, linear);
    const Axis ay = shape == cucpu::kTexture1D ? Axis{} : axis_of(t, 1, y, t.height, linear);
    const Axis az =
        shape == cucpu::kTexture3D ? axis_of(t, 2, z, t.depth, linear) : Axis{slice, slice, 0};
    if (gather) {
      const unsigned component = config >> 8 & 3;
      const Texel corners[4] = {
          fetch(t, ax.first, ay.second, az.first), fetch(t, ax.second, ay.second, az.first),
          fetch(t, ax.second, ay.first, az.first), fetch(t, ax.first, ay.first, az.first)};
      for (unsigned k = 0; k < 4; ++k)
        v.f[k] = corners[k].f[component], v.i[k] = corners[k].i[component];
      v.integer = corners[0].integer;
    } else if (!linear) {
      v = fetch(t, ax.first, ay.first, az.first);
    } else {
      const auto row = [&](std::int64_t j, std::int64_t k) {
        return mix(fetch(t, ax.first, j, k), fetch(t, ax.second, j, k), ax.weight);
      };
      const auto plane = [&](std::int64_t k) {
        return shape == cucpu::kTexture1D ? row(0, k)
                                          : mix(row(ay.first, k), row(ay.second, k), ay.weight);
      };
      v = shape == cucpu::kTexture3D ? mix(plane(az.first), plane(az.second), az.weight)
                                     : plane(az.first);
    }
  }
  return v;
}

/// A mipmap at a level of detail, with 8 bits of it after the point.
Texel sample_level(const TextureObject& t, float lod, std::uint32_t config, std::uint32_t layer,
                   std::uint32_t xb, std::uint32_t yb, std::uint32_t zb) {
  const float last = static_cast<float>(t.level_count - 1);
  float at = lod == lod ? lod + t.level_bias : 0.0f;
  at = std::clamp(std::clamp(at, t.level_min, std::max(t.level_min, t.level_max)), 0.0f, last);
  if (t.level_filter == 0)
    return sample(t.levels[static_cast<std::uint32_t>(std::floor(at + 0.5f))], config, layer, xb,
                  yb, zb);
  const float low = std::floor(at);
  const float weight = std::round((at - low) * 256.0f) / 256.0f;
  const auto level = static_cast<std::uint32_t>(low);
  const Texel a = sample(t.levels[level], config, layer, xb, yb, zb);
  if (weight == 0 || a.integer) return a;
  return mix(a, sample(t.levels[level + 1], config, layer, xb, yb, zb), weight);
}

}  // namespace

std::uint64_t cucpu_rt_texture(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t xb, std::uint32_t yb, std::uint32_t zb,
                               std::uint32_t level) {
  if (object == 0) cucpu_rt_trap(700);
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  const Texel v = t.levels == nullptr
                      ? sample(t, config, layer, xb, yb, zb)
                      : sample_level(t, std::bit_cast<float>(level), config, layer, xb, yb, zb);
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
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  const std::uint32_t shape = config & cucpu::kTextureShape;
  // How many texels of the base level a step covers; the larger of the two steps decides.
  const auto texels = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    float dx = std::bit_cast<float>(x), dy = std::bit_cast<float>(y), dz = std::bit_cast<float>(z);
    if (shape == cucpu::kTextureCube) {  // half the width of a face is one unit of direction
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

std::uint64_t cucpu_rt_surface(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t xb, std::uint32_t yb, std::uint32_t zb,
                               std::uint32_t bytes) {
  if (object == 0) cucpu_rt_trap(700);
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  const std::uint32_t shape = config & cucpu::kTextureShape;
  const std::int64_t row_bytes = std::int64_t{t.width} * channel_bytes(t.format) * t.channels;
  std::int64_t x = static_cast<std::int32_t>(xb);
  std::int64_t y = shape == cucpu::kTexture1D ? 0 : static_cast<std::int32_t>(yb);
  std::int64_t z = shape == cucpu::kTexture3D ? static_cast<std::int32_t>(zb) : 0;
  if ((config & cucpu::kTextureLayered) != 0) z = layer;
  const std::int64_t rows = shape == cucpu::kTexture1D ? 1 : std::max(t.height, 1u);
  const std::int64_t slices =
      shape == cucpu::kTexture3D ? std::max(t.depth, 1u) : std::max(t.layers, 1u);
  const bool inside =
      x >= 0 && x + bytes <= row_bytes && y >= 0 && y < rows && z >= 0 && z < slices;
  if (!inside) {
    if ((config & cucpu::kSurfaceZero) != 0) {
      alignas(16) static thread_local std::byte nowhere[32];
      std::memset(nowhere, 0, sizeof nowhere);
      return reinterpret_cast<std::uint64_t>(nowhere);
    }
    if ((config & cucpu::kSurfaceClamp) == 0) cucpu_rt_trap(717);
    x = std::clamp<std::int64_t>(x / bytes * bytes, 0,
                                 std::max<std::int64_t>(row_bytes - bytes, 0));
    y = std::clamp<std::int64_t>(y, 0, rows - 1);
    z = std::clamp<std::int64_t>(z, 0, slices - 1);
  }
  return reinterpret_cast<std::uint64_t>(t.data) + static_cast<std::uint64_t>(z) * t.slice_pitch +
         static_cast<std::uint64_t>(y) * t.row_pitch + static_cast<std::uint64_t>(x);
}

std::uint32_t cucpu_rt_texture_query(std::uint64_t object, std::uint32_t which) {
  if (object == 0) cucpu_rt_trap(700);
  const TextureObject& t = *reinterpret_cast<const TextureObject*>(object);
  const std::uint32_t answers[] = {
      t.width, t.height, t.depth, t.layers, (t.flags & 2) != 0 ? 1u : 0u, t.format, t.channels,
      t.level_count};
  return which < 8 ? answers[which] : 0;
}
