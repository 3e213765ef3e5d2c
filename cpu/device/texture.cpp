// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects. A handle's value is the address of the engine's TextureObject, which
// device code reads.
#include "cpu/device/texture.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cpu/device/deferred.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/engine/check/kinds.hpp"

namespace cucpu::driver {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<unsigned long long, std::shared_ptr<TextureEntry>> objects;
  std::unordered_map<unsigned long long, std::weak_ptr<TextureEntry>> ended;  ///< in check mode
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

struct Texels {
  CUarray_format format;
  unsigned channels;
};

/// Format and channels of a view. Block-compressed formats are not supported.
Texels view_texels(CUresourceViewFormat format) {
  const auto counted = [](CUarray_format f, int from, int at) {  // 1X, 2X, 4X are consecutive
    return Texels{f, 1u << (at - from)};
  };
  constexpr CUarray_format kFormats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                         CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                         CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                         CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  require(format >= CU_RES_VIEW_FORMAT_UINT_1X8 && format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7);
  require(format <= CU_RES_VIEW_FORMAT_FLOAT_4X32, CUDA_ERROR_NOT_SUPPORTED);
  const int at = static_cast<int>(format) - CU_RES_VIEW_FORMAT_UINT_1X8;
  return counted(kFormats[at / 3], at / 3 * 3, at);
}

void describe(cucpu::TextureObject& s, CUarray_format format, unsigned channels) {
  require(format_bytes(format) > 0 && (channels == 1 || channels == 2 || channels == 4));
  switch (format) {  // normalized formats are read as their integer formats, with conversion
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
      format = CU_AD_FORMAT_UNSIGNED_INT8, s.flags &= ~1u;
      break;
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      format = CU_AD_FORMAT_SIGNED_INT8, s.flags &= ~1u;
      break;
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
      format = CU_AD_FORMAT_UNSIGNED_INT16, s.flags &= ~1u;
      break;
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      format = CU_AD_FORMAT_SIGNED_INT16, s.flags &= ~1u;
      break;
    default:
      break;
  }
  s.format = static_cast<std::uint32_t>(format);
  s.channels = channels;
}

/// Describes one level of an array through the entry's view.
void place(const TextureEntry& o, cucpu::TextureObject& s, const CUDA_ARRAY3D_DESCRIPTOR& d,
           char* data, std::size_t pitch, std::size_t slice) {
  const bool sliced = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  describe(s, d.Format, d.NumChannels);
  s.width = static_cast<std::uint32_t>(d.Width);
  s.height = static_cast<std::uint32_t>(d.Height);
  (sliced ? s.layers : s.depth) = static_cast<std::uint32_t>(d.Depth);
  s.is_cube = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  s.is_surface = o.is_surface;
  s.data = reinterpret_cast<std::byte*>(data);
  s.row_pitch = pitch;
  s.slice_pitch = slice;
  if (!o.has_view) return;
  if (o.view.format != CU_RES_VIEW_FORMAT_NONE) {
    const Texels t = view_texels(o.view.format);
    require(format_bytes(t.format) * t.channels == format_bytes(d.Format) * d.NumChannels);
    describe(s, t.format, t.channels);
  }
  if (sliced) {
    require(o.view.firstLayer <= o.view.lastLayer && o.view.lastLayer < s.layers);
    s.data += o.view.firstLayer * slice;
    s.layers = o.view.lastLayer - o.view.firstLayer + 1;
  } else {
    require(o.view.firstLayer == 0 && o.view.lastLayer == 0);
  }
}

void check_view(const TextureEntry& o, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels) {
  if (!o.has_view) return;
  const CUDA_RESOURCE_VIEW_DESC& v = o.view;
  const bool compressed = v.format > CU_RES_VIEW_FORMAT_FLOAT_4X32;
  if (!compressed) require(v.width == d.Width && v.height == d.Height && v.depth == d.Depth);
  require(v.firstMipmapLevel <= v.lastMipmapLevel && v.lastMipmapLevel < levels);
}

/// The entry owns a reference to the array, which owns its tiles.
void resolve_tiles(cucpu::TextureObject& s, const std::shared_ptr<TileSet>& tiles) {
  if (!tiles) return;
  s.tiles = tiles->mapped.get();
  s.first_tile = reinterpret_cast<const std::byte*>(tiles->base);
}

void resolve_resource(TextureEntry& o) {
  cucpu::TextureObject& s = o.state;
  const CUDA_RESOURCE_DESC& r = o.resource;
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      Array& array = nonnull_object_of<Array>(r.res.array.hArray);
      check_view(o, array.desc, 1);
      resolve_tiles(s, array.tiles);
      place(o, s, array.desc, array.data, array.pitch, array.slice_bytes);
      s.home = &array.context();
      o.keep = Ref<Object>{&array};
      break;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      MipmappedArray& array = nonnull_object_of<MipmappedArray>(r.res.mipmap.hMipmappedArray);
      check_view(o, array.desc, static_cast<unsigned>(array.levels.size()));
      const std::size_t first = o.has_view ? o.view.firstMipmapLevel : 0;
      const std::size_t last = o.has_view ? o.view.lastMipmapLevel : array.levels.size() - 1;
      resolve_tiles(s, array.tiles);
      const cucpu::TextureObject sampling = s;
      o.levels.clear();
      for (std::size_t i = first; i <= last; ++i) {
        const MipmappedArray::Level& level = array.levels[i];
        place(o, o.levels.emplace_back(sampling), level.desc, level.data, level.layout.pitch,
              level.layout.slice_bytes);
      }
      s = o.levels.front();
      s.levels = o.levels.data();
      s.level_count = static_cast<std::uint32_t>(o.levels.size());
      s.home = &array.context();
      o.keep = Ref<Object>{&array};
      break;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = r.res.linear;
      describe(s, linear.format, linear.numChannels);
      const std::size_t element = format_bytes(linear.format) * linear.numChannels;
      require(linear.sizeInBytes >= element);
      require_device_range(linear.devPtr, linear.sizeInBytes);
      s.data = reinterpret_cast<std::byte*>(linear.devPtr);
      s.width = static_cast<std::uint32_t>(linear.sizeInBytes / element);
      s.row_pitch = s.slice_pitch = linear.sizeInBytes;
      break;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& p = r.res.pitch2D;
      describe(s, p.format, p.numChannels);
      const std::size_t element = format_bytes(p.format) * p.numChannels;
      require(p.width > 0 && p.height > 0 && p.pitchInBytes >= p.width * element &&
              p.pitchInBytes % 32 == 0);
      require_device_range(p.devPtr, (p.height - 1) * p.pitchInBytes + p.width * element);
      s.data = reinterpret_cast<std::byte*>(p.devPtr);
      s.width = static_cast<std::uint32_t>(p.width);
      s.height = static_cast<std::uint32_t>(p.height);
      s.row_pitch = p.pitchInBytes;
      s.slice_pitch = p.pitchInBytes * p.height;
      break;
    }
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

TextureEntry& find(unsigned long long handle, bool surface) {  // call with the lock held
  const auto at = table().objects.find(handle);
  require(at != table().objects.end() && at->second->is_surface == surface);
  return *at->second;
}

}  // namespace

unsigned long long publish_texture(std::shared_ptr<TextureEntry> object) {
  const auto handle = reinterpret_cast<unsigned long long>(&object->state);
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  t.objects.emplace(handle, std::move(object));
  return handle;
}

void destroy_texture(unsigned long long handle, bool surface) {
  Table& t = table();
  std::shared_ptr<TextureEntry> removed;
  {
    const std::lock_guard lock{t.mutex};
    find(handle, surface);
    removed = t.objects.find(handle)->second;
  }
  release_after_queued_work(removed);
  const std::lock_guard lock{t.mutex};
  const auto at = t.objects.find(handle);
  require(at != t.objects.end() && at->second == removed);  // another thread may have destroyed it
  t.objects.erase(at);
  if (cucpu::check::kinds_in_environment() != 0) t.ended[handle] = removed;
}

TextureEntry texture_description(unsigned long long handle, bool surface) {
  const std::lock_guard lock{table().mutex};
  const TextureEntry& entry = find(handle, surface);
  TextureEntry copy;
  copy.resource = entry.resource;
  copy.texture = entry.texture;
  copy.view = entry.view;
  copy.has_view = entry.has_view;
  return copy;
}

bool is_texture(unsigned long long handle) {
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  if (t.objects.contains(handle)) return true;
  const auto ended = t.ended.find(handle);
  return ended != t.ended.end() && !ended->second.expired();
}

void destroy_textures_of(std::uint64_t context_id) noexcept {
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  std::erase_if(t.objects, [&](const auto& at) { return at.second->context_id == context_id; });
}

void resolve_texture(TextureEntry& o) {
  const CUDA_TEXTURE_DESC& t = o.texture;
  cucpu::TextureObject& s = o.state;
  s = {};
  for (int i = 0; i < 3; ++i) {
    require(t.addressMode[i] >= CU_TR_ADDRESS_MODE_WRAP &&
            t.addressMode[i] <= CU_TR_ADDRESS_MODE_BORDER);
    s.address[i] = static_cast<std::uint32_t>(t.addressMode[i]);
  }
  const auto is_filter = [](CUfilter_mode f) {
    return f == CU_TR_FILTER_MODE_POINT || f == CU_TR_FILTER_MODE_LINEAR;
  };
  require(is_filter(t.filterMode) && is_filter(t.mipmapFilterMode));
  s.filter = static_cast<std::uint32_t>(t.filterMode);
  require((t.flags & ~kTextureFlags) == 0);
  s.flags = t.flags;
  std::memcpy(s.border, t.borderColor, sizeof s.border);
  s.level_filter = static_cast<std::uint32_t>(t.mipmapFilterMode);
  s.level_bias = t.mipmapLevelBias;
  s.level_min = t.minMipmapLevelClamp;
  s.level_max = t.maxMipmapLevelClamp;
  if (o.resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    require(t.flags & CU_TRSF_NORMALIZED_COORDINATES);
  resolve_resource(o);
}

void resolve_surface(TextureEntry& o) {
  require(o.resource.resType == CU_RESOURCE_TYPE_ARRAY);
  require(o.resource.res.array.hArray != nullptr);
  require(object_of<Array>(o.resource.res.array.hArray).desc.Flags & CUDA_ARRAY3D_SURFACE_LDST);
  o.state = {};
  o.state.flags =
      CU_TRSF_READ_AS_INTEGER;  // formatted stores; describe() clears it for normalized formats
  o.is_surface = true;
  resolve_resource(o);
}

}  // namespace cucpu::driver
