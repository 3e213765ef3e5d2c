// cuTexObject* and cuSurfObject*. A handle's value is the address of the engine's TextureObject, which device code reads.

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "api/array.hpp"
#include "api/guard.hpp"
#include "api/memory.hpp"
#include "engine/runtime/texture.hpp"

namespace cucpu::driver {
namespace {

struct TextureEntry {
  cucpu::TextureObject state{};
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false, is_surface = false;
  Ref<Object> keep;  // the array
};

struct Table {
  std::mutex mutex;
  std::unordered_map<unsigned long long, std::unique_ptr<TextureEntry>> objects;
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

/// Resolves a resource. Fails with 1 for what is out of bounds, 400 for a bad array.
void look_at(TextureEntry& o) {
  cucpu::TextureObject& s = o.state;
  const CUDA_RESOURCE_DESC& r = o.resource;
  std::size_t element = 0;
  const auto describe = [&](CUarray_format format, unsigned channels) {
    require(format_bytes(format) > 0 && (channels == 1 || channels == 2 || channels == 4));
    s.format = static_cast<std::uint32_t>(format);
    s.channels = channels;
    element = format_bytes(format) * channels;
  };
  const auto extents = [&](const CUDA_ARRAY3D_DESCRIPTOR& d) {
    describe(d.Format, d.NumChannels);
    const bool sliced = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    s.width = static_cast<std::uint32_t>(d.Width);
    s.height = static_cast<std::uint32_t>(d.Height);
    (sliced ? s.layers : s.depth) = static_cast<std::uint32_t>(d.Depth);
  };
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      Array& array = object_of<Array>(r.res.array.hArray);
      extents(array.desc);
      s.data = reinterpret_cast<std::byte*>(array.data);
      s.row_pitch = array.pitch;
      s.slice_pitch = array.slice_bytes;
      o.keep = Ref<Object>{&array};
      break;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {  // device code samples the first level of the view
      MipmappedArray& array = object_of<MipmappedArray>(r.res.mipmap.hMipmappedArray);
      const unsigned level = o.has_view ? o.view.firstMipmapLevel : 0;
      require(level < array.levels.size());
      extents(array.levels[level].desc);
      s.data = reinterpret_cast<std::byte*>(array.levels[level].data);
      s.row_pitch = array.levels[level].pitch;
      s.slice_pitch = array.levels[level].slice_bytes;
      o.keep = Ref<Object>{&array};
      break;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = r.res.linear;
      describe(linear.format, linear.numChannels);
      require(linear.sizeInBytes >= element);
      require_device_range(linear.devPtr, linear.sizeInBytes);
      s.data = reinterpret_cast<std::byte*>(linear.devPtr);
      s.width = static_cast<std::uint32_t>(linear.sizeInBytes / element);
      s.row_pitch = s.slice_pitch = linear.sizeInBytes;
      break;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& p = r.res.pitch2D;
      describe(p.format, p.numChannels);
      require(p.width > 0 && p.height > 0 && p.pitchInBytes >= p.width * element && p.pitchInBytes % 32 == 0);
      require_device_range(p.devPtr, (p.height - 1) * p.pitchInBytes + p.width * element);
      s.data = reinterpret_cast<std::byte*>(p.devPtr);
      s.width = static_cast<std::uint32_t>(p.width);
      s.height = static_cast<std::uint32_t>(p.height);
      s.row_pitch = p.pitchInBytes;
      s.slice_pitch = p.pitchInBytes * p.height;
      break;
    }
    default: fail(CUDA_ERROR_INVALID_VALUE);
  }
}

unsigned long long keep(std::unique_ptr<TextureEntry> object) {
  const auto handle = reinterpret_cast<unsigned long long>(&object->state);
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  t.objects.emplace(handle, std::move(object));
  return handle;
}

TextureEntry& find(unsigned long long handle, bool surface) {  // call with the lock held
  const auto at = table().objects.find(handle);
  require(at != table().objects.end() && at->second->is_surface == surface);
  return *at->second;
}

void destroy(unsigned long long handle, bool surface) {
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  find(handle, surface);
  t.objects.erase(handle);
}

}  // namespace
}  // namespace cucpu::driver

using namespace cucpu::driver;

extern "C" {

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                           const CUDA_RESOURCE_VIEW_DESC* view) {
  return guarded([&] {
    require(out && resource && texture && resource->flags == 0);
    current_context();
    auto object = std::make_unique<TextureEntry>();
    object->resource = *resource;
    object->texture = *texture;
    if (view) {
      require(resource->resType == CU_RESOURCE_TYPE_ARRAY || resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
      require(view->format == CU_RES_VIEW_FORMAT_NONE, CUDA_ERROR_NOT_SUPPORTED);
      object->view = *view;
      object->has_view = true;
    }
    look_at(*object);
    cucpu::TextureObject& s = object->state;
    for (int i = 0; i < 3; ++i) {
      require(texture->addressMode[i] >= CU_TR_ADDRESS_MODE_WRAP && texture->addressMode[i] <= CU_TR_ADDRESS_MODE_BORDER);
      s.address[i] = static_cast<std::uint32_t>(texture->addressMode[i]);
    }
    require(texture->filterMode == CU_TR_FILTER_MODE_POINT || texture->filterMode == CU_TR_FILTER_MODE_LINEAR);
    s.filter = static_cast<std::uint32_t>(texture->filterMode);
    s.flags = texture->flags;
    std::memcpy(s.border, texture->borderColor, sizeof s.border);
    *out = keep(std::move(object));
  });
}

CUresult cuTexObjectDestroy(CUtexObject handle) {
  return guarded([&] { destroy(handle, false); });
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    const std::lock_guard lock{table().mutex};
    *out = find(handle, false).resource;
  });
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    const std::lock_guard lock{table().mutex};
    *out = find(handle, false).texture;
  });
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    const std::lock_guard lock{table().mutex};
    const TextureEntry& object = find(handle, false);
    require(object.has_view);
    *out = object.view;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return guarded([&] {
    require(out && resource && resource->flags == 0);
    current_context();
    require(resource->resType == CU_RESOURCE_TYPE_ARRAY);
    require(object_of<Array>(resource->res.array.hArray).desc.Flags & CUDA_ARRAY3D_SURFACE_LDST);
    auto object = std::make_unique<TextureEntry>();
    object->resource = *resource;
    object->is_surface = true;
    look_at(*object);
    *out = keep(std::move(object));
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  return guarded([&] { destroy(handle, true); });
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  return guarded([&] {
    require(out != nullptr);
    const std::lock_guard lock{table().mutex};
    *out = find(handle, true).resource;
  });
}

}  // extern "C"
