// SPDX-License-Identifier: Apache-2.0
// cuArray* and cuMipmappedArray*.
#include "cpu/device/array.hpp"

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

namespace {

void create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  require(out != nullptr);
  Context& context = current_context();
  require_capture_safe();
  *out = make_array(context, desc)->publish();
}

}  // namespace

extern "C" {

CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* desc) {
  return guarded([&] {
    require(desc != nullptr);
    create(out, {desc->Width, desc->Height, 0, desc->Format, desc->NumChannels, 0});
  });
}

CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc) {
  return guarded([&] {
    require(desc != nullptr);
    create(out, *desc);
  });
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    const Array& array = object_of<Array>(handle);
    *out = {array.desc.Width, array.desc.Height, array.desc.Format, array.desc.NumChannels};
  });
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = object_of<Array>(handle).desc;
  });
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle,
                                      CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    require(is_device(dev));
    const Array& array = nonnull_object_of<Array>(handle);
    *out = array.tiles ? CUDA_ARRAY_MEMORY_REQUIREMENTS{array.tile_bytes(), cucpu::kTileBytes, {}}
                       : CUDA_ARRAY_MEMORY_REQUIREMENTS{array.bytes(), 512, {}};
  });
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                               CUmipmappedArray handle, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    require(is_device(dev));
    const MipmappedArray& array = nonnull_object_of<MipmappedArray>(handle);
    *out = {array.bytes, array.tiles ? cucpu::kTileBytes : 512, {}};
  });
}

CUresult cuArrayGetPlane(CUarray* out, CUarray handle, unsigned int) {
  return guarded([&] {
    require(out != nullptr);
    object_of<Array>(handle);
    fail(CUDA_ERROR_INVALID_VALUE);  // only video formats have planes
  });
}

CUresult cuArrayDestroy(CUarray handle) {
  return guarded([&] {
    Ref<Array> array{&object_of<Array>(handle)};
    require(!array->is_level());
    array->context().synchronize();
    require(array->retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc,
                                unsigned int levels) {
  return guarded([&] {
    require(out && desc);
    Context& context = current_context();
    require_capture_safe();
    *out = make_mipmapped_array(context, *desc, levels)->publish();
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  return guarded([&] {
    require(out != nullptr);
    *out = object_of<MipmappedArray>(handle).level_handle(level);
  });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  return guarded([&] {
    Ref<MipmappedArray> array{&object_of<MipmappedArray>(handle)};
    current_context();
    array->context().synchronize();  // the array's context, perhaps not the current one
    array->drop_levels();
    require(array->retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

}  // extern "C"
