// texture.cpp: arrays, texture and surface objects for cuda.core.texture, by handle.
#include <nanobind/stl/vector.h>

#include "cucore/copy.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

std::size_t number(const void* handle) { return reinterpret_cast<std::size_t>(handle); }

CUDA_ARRAY3D_DESCRIPTOR descriptor(const std::vector<std::size_t>& shape, int format,
                                   unsigned channels, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Width = shape.size() > 0 ? shape[0] : 0;
  d.Height = shape.size() > 1 ? shape[1] : 0;
  d.Depth = shape.size() > 2 ? shape[2] : 0;
  d.Format = static_cast<CUarray_format>(format);
  d.NumChannels = channels;
  d.Flags = flags;
  return d;
}

/// (kind, handle or address, format, channels, width, height, pitch) as cuda.core.texture builds
/// it.
CUDA_RESOURCE_DESC resource(int kind, std::size_t handle, int format, unsigned channels,
                            std::size_t width, std::size_t height, std::size_t pitch) {
  CUDA_RESOURCE_DESC d{};
  d.resType = static_cast<CUresourcetype>(kind);
  switch (d.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      d.res.array.hArray = reinterpret_cast<CUarray>(handle);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      d.res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(handle);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      d.res.linear.devPtr = handle;
      d.res.linear.format = static_cast<CUarray_format>(format);
      d.res.linear.numChannels = channels;
      d.res.linear.sizeInBytes = width;
      break;
    default:
      d.res.pitch2D.devPtr = handle;
      d.res.pitch2D.format = static_cast<CUarray_format>(format);
      d.res.pitch2D.numChannels = channels;
      d.res.pitch2D.width = width;
      d.res.pitch2D.height = height;
      d.res.pitch2D.pitchInBytes = pitch;
  }
  return d;
}

}  // namespace

void bind_texture(nb::module_& m) {
  m.def("array_create",
        [](std::vector<std::size_t> shape, int format, unsigned channels, unsigned flags) {
          const CUDA_ARRAY3D_DESCRIPTOR d = descriptor(shape, format, channels, flags);
          CUarray array = nullptr;
          CUCORE_CALL_WITHOUT_GIL(cuArray3DCreate(&array, &d));
          return number(array);
        });
  m.def("array_destroy", [](std::size_t h) {
    CUCORE_CALL_WITHOUT_GIL(cuArrayDestroy(reinterpret_cast<CUarray>(h)));
  });
  m.def("mipmapped_create", [](std::vector<std::size_t> shape, int format, unsigned channels,
                               unsigned flags, unsigned levels) {
    const CUDA_ARRAY3D_DESCRIPTOR d = descriptor(shape, format, channels, flags);
    CUmipmappedArray array = nullptr;
    CUCORE_CALL_WITHOUT_GIL(cuMipmappedArrayCreate(&array, &d, levels));
    return number(array);
  });
  m.def("mipmapped_level", [](std::size_t h, unsigned level) {
    CUarray array = nullptr;
    CUCORE_CALL(cuMipmappedArrayGetLevel(&array, reinterpret_cast<CUmipmappedArray>(h), level));
    return number(array);
  });
  m.def("mipmapped_destroy", [](std::size_t h) {
    CUCORE_CALL_WITHOUT_GIL(cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(h)));
  });
  // Rows are packed in linear memory; to_array says which way.
  m.def("array_copy", [](std::size_t array, std::size_t ptr, std::size_t width_bytes,
                         std::size_t height, std::size_t depth, bool to_array, nb::handle stream) {
    const Stream on = stream_argument(stream.ptr(), "copy");
    const CopyEnd linear{ptr};
    const CopyEnd image{0, reinterpret_cast<CUarray>(array)};
    const CUDA_MEMCPY3D p = copy_params(to_array ? image : linear, to_array ? linear : image,
                                        {width_bytes, height, depth});
    WithoutGil release;
    CUCORE_CALL(cuMemcpy3DAsync(&p, on.handle()));
  });
  m.def("texture_create", [](int kind, std::size_t handle, int format, unsigned channels,
                             std::size_t width, std::size_t height, std::size_t pitch,
                             std::vector<int> address_modes, int filter, unsigned flags,
                             unsigned anisotropy, int mip_filter, float bias, float min_clamp,
                             float max_clamp, std::vector<float> border) {
    const CUDA_RESOURCE_DESC d = resource(kind, handle, format, channels, width, height, pitch);
    CUDA_TEXTURE_DESC t{};
    for (std::size_t i = 0; i < 3; ++i)
      t.addressMode[i] = static_cast<CUaddress_mode>(address_modes[i]);
    t.filterMode = static_cast<CUfilter_mode>(filter);
    t.flags = flags;
    t.maxAnisotropy = anisotropy;
    t.mipmapFilterMode = static_cast<CUfilter_mode>(mip_filter);
    t.mipmapLevelBias = bias;
    t.minMipmapLevelClamp = min_clamp;
    t.maxMipmapLevelClamp = max_clamp;
    for (std::size_t i = 0; i < border.size() && i < 4; ++i) t.borderColor[i] = border[i];
    CUtexObject object = 0;
    CUCORE_CALL_WITHOUT_GIL(cuTexObjectCreate(&object, &d, &t, nullptr));
    return static_cast<unsigned long long>(object);
  });
  m.def("texture_destroy",
        [](unsigned long long h) { CUCORE_CALL_WITHOUT_GIL(cuTexObjectDestroy(h)); });
  m.def("surface_create", [](std::size_t array) {
    const CUDA_RESOURCE_DESC d = resource(CU_RESOURCE_TYPE_ARRAY, array, 0, 0, 0, 0, 0);
    CUsurfObject object = 0;
    CUCORE_CALL_WITHOUT_GIL(cuSurfObjectCreate(&object, &d));
    return static_cast<unsigned long long>(object);
  });
  m.def("surface_destroy",
        [](unsigned long long h) { CUCORE_CALL_WITHOUT_GIL(cuSurfObjectDestroy(h)); });
}
CUCORE_BIND(kBindRest, bind_texture)

}  // namespace cucore::python
