// SPDX-License-Identifier: Apache-2.0
// cuTexObject* and cuSurfObject*.
#include "cpu/device/texture.hpp"

#include <memory>

#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  return guarded([&] {
    require(out && resource && texture && resource->flags == 0);
    const Context& context = current_context();
    auto object = std::make_shared<TextureEntry>();
    object->context_id = context.id;
    object->resource = *resource;
    object->texture = *texture;
    if (view) {
      require(resource->resType == CU_RESOURCE_TYPE_ARRAY ||
              resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
      object->view = *view;
      object->has_view = true;
    }
    resolve_texture(*object);
    *out = publish_texture(std::move(object));
  });
}

CUresult cuTexObjectDestroy(CUtexObject handle) {
  return guarded([&] {
    if (handle != 0) destroy_texture(handle, false);
  });
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    *out = texture_description(handle, false).resource;
  });
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    *out = texture_description(handle, false).texture;
  });
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    const TextureEntry object = texture_description(handle, false);
    require(object.has_view);
    *out = object.view;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return guarded([&] {
    require(out && resource && resource->flags == 0);
    const Context& context = current_context();
    auto object = std::make_shared<TextureEntry>();
    object->context_id = context.id;
    object->resource = *resource;
    resolve_surface(*object);
    *out = publish_texture(std::move(object));
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  return guarded([&] {
    if (handle != 0) destroy_texture(handle, true);
  });
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    *out = texture_description(handle, true).resource;
  });
}

}  // extern "C"
