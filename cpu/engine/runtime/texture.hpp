// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/texture.hpp: the layout of texture and surface objects: a CUtexObject or
// CUsurfObject is the address of a TextureObject. The driver layer fills it; tex, tld4, suld, sust
// and txq read it. Enumerators are those of the driver ABI (CUarray_format, …).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cucpu {

struct TextureObject {
  std::byte* data = nullptr;      ///< texel (0, 0, 0)
  std::uint32_t width = 0;        ///< in texels
  std::uint32_t height = 0;       ///< 0: one-dimensional
  std::uint32_t depth = 0;        ///< of 3D arrays, 0 otherwise
  std::uint32_t layers = 0;       ///< of layered arrays (6 per cube), 0 otherwise
  std::uint64_t row_pitch = 0;    ///< bytes from row to row
  std::uint64_t slice_pitch = 0;  ///< bytes from slice to slice, or from layer to layer
  std::uint32_t format =
      0;  ///< CUarray_format: 1 2 3 unsigned, 8 9 10 signed 8/16/32 bits, 16 half, 32 float
  std::uint32_t channels = 1;            ///< 1, 2 or 4
  std::uint32_t address[3] = {1, 1, 1};  ///< CUaddress_mode: 0 wrap, 1 clamp, 2 mirror, 3 border
  std::uint32_t filter = 0;              ///< CUfilter_mode: 0 point, 1 linear
  std::uint32_t flags = 0;               ///< CU_TRSF_*: 1 read as integer, 2 normalized coordinates
  bool is_surface = false, is_cube = false;
  float border[4] = {0, 0, 0, 0};
  // Mipmaps: the object itself describes the base level, `levels` all levels including the base.
  // Null for other textures.
  const TextureObject* levels = nullptr;
  const void* home =
      nullptr;  ///< an array's owner (cpu/engine/peer_access.hpp); null for plain memory
  // Sparse arrays: which tiles are mapped, and the place of the first. Null for other arrays.
  const std::atomic<std::uint8_t>* tiles = nullptr;
  const std::byte* first_tile = nullptr;
  std::uint32_t level_count = 1;
  std::uint32_t level_filter = 0;  ///< CUfilter_mode between levels
  float level_bias = 0, level_min = 0, level_max = 0;
};

// `config` of the routines below.
inline constexpr std::uint32_t kTexture1D = 0, kTexture2D = 1, kTexture3D = 2, kTextureCube = 3,
                               kTextureShape = 3;
inline constexpr std::uint32_t kTextureLayered = 4;
inline constexpr std::uint32_t kTextureIntegerCoordinates = 8;
inline constexpr std::uint32_t kTextureHigh = 16;    ///< components 2 and 3, else 0 and 1
inline constexpr std::uint32_t kTextureGather = 32;  ///< tld4; the component is in bits 8 and 9
inline constexpr std::uint32_t kSurfaceClamp = 64, kSurfaceZero = 128, kSurfaceStore = 1024;
inline constexpr std::uint32_t kSurfaceWide =
    256;  ///< of a reduction: 64 bits; the low byte is a ReduceOp
inline constexpr std::uint32_t kTextureResident = 2048;  ///< asks whether all texels have memory
inline constexpr std::uint32_t kTextureHalves = 4096;    ///< four components of 16 bits
/// The offset of the fetch from the coordinates, in texels: four signed bits for each of x, y, z.
inline constexpr unsigned kTextureOffset = 13;
inline constexpr std::uint32_t kTextureNamesLevel = 1u << 25;  ///< tex.level

inline constexpr std::size_t kTileBytes = std::size_t{64} << 10;  ///< of sparse arrays

constexpr unsigned channel_bytes(std::uint32_t format) {
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
constexpr unsigned texel_bytes(const TextureObject& t) {
  return channel_bytes(t.format) * t.channels;
}
/// False in an unmapped tile of a sparse array: loads return zeros, and stores have no effect.
inline bool is_resident(const TextureObject& t, const std::byte* at) {
  return t.tiles == nullptr ||
         t.tiles[static_cast<std::size_t>(at - t.first_tile) / kTileBytes].load(
             std::memory_order_relaxed) != 0;
}

}  // namespace cucpu

extern "C" {
/// Returns two components of 32 bits, the first in the low half (or four f16, or whether the texels
/// are mapped). Coordinates are the bits of floats or integers; `level` the bits of a float, which
/// only mipmaps use.
std::uint64_t cucpu_rt_texture(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t x, std::uint32_t y, std::uint32_t z,
                               std::uint32_t level);
/// The level of detail for a pair of gradients, as the bits of a float.
std::uint32_t cucpu_rt_texture_level(std::uint64_t object, std::uint32_t config, std::uint32_t xa,
                                     std::uint32_t ya, std::uint32_t za, std::uint32_t xb,
                                     std::uint32_t yb, std::uint32_t zb);
/// The address of `bytes` bytes of a surface; x counts bytes. Out of bounds, by mode: a trap, the
/// nearest texel, or an address that reads as zero.
std::uint64_t cucpu_rt_surface(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                               std::uint32_t x, std::uint32_t y, std::uint32_t z,
                               std::uint32_t bytes);
/// A formatted store of four 32-bit components, of which the format uses as many as it has; x
/// counts texels.
void cucpu_rt_surface_store(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                            std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint64_t low,
                            std::uint64_t high);
/// A formatted reduction; x counts texels, and the format defines whether components are signed.
void cucpu_rt_surface_reduce(std::uint64_t object, std::uint32_t config, std::uint32_t layer,
                             std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t what,
                             std::uint64_t value);
/// Of one level: 0 width, 1 height, 2 depth (layers, where there are any), 3 layers, 4 normalized
/// coordinates, 5 format, 6 channels, 7 levels
std::uint32_t cucpu_rt_texture_query(std::uint64_t object, std::uint32_t which,
                                     std::uint32_t level);
}
