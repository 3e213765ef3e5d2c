// SPDX-License-Identifier: Apache-2.0
// texture.cpp: texture and surface objects; converts their descriptors between the two APIs.
#include "runtime/format.hpp"

namespace cucore::rt {
namespace {

CUresult to_resource(const cudaResourceDesc& in, CUDA_RESOURCE_DESC* out) {
  *out = {};
  out->flags = in.flags;
  Format format{};
  switch (in.resType) {
    case cudaResourceTypeArray:
      out->resType = CU_RESOURCE_TYPE_ARRAY;
      out->res.array.hArray = as_array(in.res.array.array);
      return CUDA_SUCCESS;
    case cudaResourceTypeMipmappedArray:
      out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(in.res.mipmap.mipmap);
      return CUDA_SUCCESS;
    case cudaResourceTypeLinear:
      if (!to_format(in.res.linear.desc, &format)) return CUDA_ERROR_INVALID_VALUE;
      out->resType = CU_RESOURCE_TYPE_LINEAR;
      out->res.linear.devPtr = device_pointer(in.res.linear.devPtr);
      out->res.linear.format = format.format;
      out->res.linear.numChannels = format.channels;
      out->res.linear.sizeInBytes = in.res.linear.sizeInBytes;
      return CUDA_SUCCESS;
    case cudaResourceTypePitch2D:
      if (!to_format(in.res.pitch2D.desc, &format)) return CUDA_ERROR_INVALID_VALUE;
      out->resType = CU_RESOURCE_TYPE_PITCH2D;
      out->res.pitch2D.devPtr = device_pointer(in.res.pitch2D.devPtr);
      out->res.pitch2D.format = format.format;
      out->res.pitch2D.numChannels = format.channels;
      out->res.pitch2D.width = in.res.pitch2D.width;
      out->res.pitch2D.height = in.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = in.res.pitch2D.pitchInBytes;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void from_resource(const CUDA_RESOURCE_DESC& in, cudaResourceDesc* out) {
  *out = {};
  out->flags = in.flags;
  switch (in.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out->resType = cudaResourceTypeArray;
      out->res.array.array = reinterpret_cast<cudaArray_t>(in.res.array.hArray);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out->resType = cudaResourceTypeMipmappedArray;
      out->res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(in.res.mipmap.hMipmappedArray);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out->resType = cudaResourceTypeLinear;
      out->res.linear.devPtr = reinterpret_cast<void*>(in.res.linear.devPtr);
      out->res.linear.desc = from_format(in.res.linear.format, in.res.linear.numChannels);
      out->res.linear.sizeInBytes = in.res.linear.sizeInBytes;
      break;
    default:
      out->resType = cudaResourceTypePitch2D;
      out->res.pitch2D.devPtr = reinterpret_cast<void*>(in.res.pitch2D.devPtr);
      out->res.pitch2D.desc = from_format(in.res.pitch2D.format, in.res.pitch2D.numChannels);
      out->res.pitch2D.width = in.res.pitch2D.width;
      out->res.pitch2D.height = in.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = in.res.pitch2D.pitchInBytes;
  }
}

CUDA_TEXTURE_DESC to_texture(const cudaTextureDesc& in) {
  CUDA_TEXTURE_DESC out{};
  for (int i = 0; i < 3; ++i) out.addressMode[i] = static_cast<CUaddress_mode>(in.addressMode[i]);
  out.filterMode = static_cast<CUfilter_mode>(in.filterMode);
  out.flags = (in.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
              (in.normalizedCoords != 0 ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
              (in.sRGB != 0 ? CU_TRSF_SRGB : 0u) |
              (in.disableTrilinearOptimization != 0 ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
              (in.seamlessCubemap != 0 ? CU_TRSF_SEAMLESS_CUBEMAP : 0u);
  out.maxAnisotropy = in.maxAnisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(in.mipmapFilterMode);
  out.mipmapLevelBias = in.mipmapLevelBias;
  out.minMipmapLevelClamp = in.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = in.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) out.borderColor[i] = in.borderColor[i];
  return out;
}

void from_texture(const CUDA_TEXTURE_DESC& in, cudaTextureDesc* out) {
  *out = {};
  for (int i = 0; i < 3; ++i)
    out->addressMode[i] = static_cast<cudaTextureAddressMode>(in.addressMode[i]);
  out->filterMode = static_cast<cudaTextureFilterMode>(in.filterMode);
  out->readMode = (in.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType
                                                            : cudaReadModeNormalizedFloat;
  out->normalizedCoords = (in.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  out->sRGB = (in.flags & CU_TRSF_SRGB) != 0;
  out->disableTrilinearOptimization = (in.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
  out->seamlessCubemap = (in.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  out->maxAnisotropy = in.maxAnisotropy;
  out->mipmapFilterMode = static_cast<cudaTextureFilterMode>(in.mipmapFilterMode);
  out->mipmapLevelBias = in.mipmapLevelBias;
  out->minMipmapLevelClamp = in.minMipmapLevelClamp;
  out->maxMipmapLevelClamp = in.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) out->borderColor[i] = in.borderColor[i];
}

cudaError_t create_texture(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                           const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  return call_with_context([=](const DriverTable& d) {
    if (object == nullptr || resource == nullptr || texture == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC what{};
    if (const CUresult code = to_resource(*resource, &what); code != CUDA_SUCCESS) return code;
    const CUDA_TEXTURE_DESC how = to_texture(*texture);
    static_assert(sizeof(CUDA_RESOURCE_VIEW_DESC) == sizeof(cudaResourceViewDesc));
    return d.cuTexObjectCreate(object, &what, &how,
                               reinterpret_cast<const CUDA_RESOURCE_VIEW_DESC*>(view));
  });
}

cudaError_t create_surface(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  return call_with_context([=](const DriverTable& d) {
    if (object == nullptr || resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC what{};
    if (const CUresult code = to_resource(*resource, &what); code != CUDA_SUCCESS) return code;
    return d.cuSurfObjectCreate(object, &what);
  });
}

cudaError_t texture_resource(cudaResourceDesc* out, cudaTextureObject_t object) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_RESOURCE_DESC what{};
    const CUresult code = d.cuTexObjectGetResourceDesc(&what, object);
    if (code == CUDA_SUCCESS) from_resource(what, out);
    return code;
  });
}

cudaError_t surface_resource(cudaResourceDesc* out, cudaSurfaceObject_t object) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_RESOURCE_DESC what{};
    const CUresult code = d.cuSurfObjectGetResourceDesc(&what, object);
    if (code == CUDA_SUCCESS) from_resource(what, out);
    return code;
  });
}

cudaError_t texture_view(cudaResourceViewDesc* out, cudaTextureObject_t object) {
  return call_with_context([=](const DriverTable& d) {
    return d.cuTexObjectGetResourceViewDesc(reinterpret_cast<CUDA_RESOURCE_VIEW_DESC*>(out),
                                            object);
  });
}

cudaError_t texture_desc(cudaTextureDesc* out, cudaTextureObject_t object) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_TEXTURE_DESC how{};
    const CUresult code = d.cuTexObjectGetTextureDesc(&how, object);
    if (code == CUDA_SUCCESS) from_texture(how, out);
    return code;
  });
}

cudaError_t mapped_mipmap(cudaMipmappedArray_t* out, cudaExternalMemory_t memory,
                          const cudaExternalMemoryMipmappedArrayDesc* desc) {
  return call_with_context([=](const DriverTable& d) {
    Format format{};
    if (out == nullptr || desc == nullptr || !to_format(desc->formatDesc, &format))
      return CUDA_ERROR_INVALID_VALUE;
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC what{};
    what.offset = desc->offset;
    what.arrayDesc = {desc->extent.width, desc->extent.height, desc->extent.depth,
                      format.format,      format.channels,     desc->flags};
    what.numLevels = desc->numLevels;
    return d.cuExternalMemoryGetMappedMipmappedArray(reinterpret_cast<CUmipmappedArray*>(out),
                                                     reinterpret_cast<CUexternalMemory>(memory),
                                                     &what);
  });
}

}  // namespace

void install_textures(RuntimeTable& t) {
  t.cudaCreateTextureObject = create_texture;
  t.cudaCreateSurfaceObject = create_surface;
  t.cudaGetTextureObjectResourceDesc = texture_resource;
  t.cudaGetSurfaceObjectResourceDesc = surface_resource;
  t.cudaGetTextureObjectResourceViewDesc = texture_view;
  t.cudaGetTextureObjectTextureDesc = texture_desc;
  t.cudaExternalMemoryGetMappedMipmappedArray = mapped_mipmap;
}

}  // namespace cucore::rt
