// SPDX-License-Identifier: Apache-2.0
// array.cpp: arrays, mipmapped arrays and channel descriptors.
#include "runtime/format.hpp"

namespace cucore::rt {

bool to_format(const cudaChannelFormatDesc& desc, Format* out) {
  const int bits = desc.x;
  unsigned channels = 1;
  for (const int next : {desc.y, desc.z, desc.w}) {
    if (next == 0) break;
    if (next != bits) return false;
    ++channels;
  }
  if (channels == 3) return false;
  out->channels = channels;
  switch (desc.f) {
    case cudaChannelFormatKindSigned:
      out->format = bits == 8    ? CU_AD_FORMAT_SIGNED_INT8
                    : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16
                                 : CU_AD_FORMAT_SIGNED_INT32;
      return bits == 8 || bits == 16 || bits == 32;
    case cudaChannelFormatKindUnsigned:
      out->format = bits == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
                    : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
                                 : CU_AD_FORMAT_UNSIGNED_INT32;
      return bits == 8 || bits == 16 || bits == 32;
    case cudaChannelFormatKindFloat:
      out->format = bits == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
      return bits == 16 || bits == 32;
    default:
      return false;
  }
}

std::size_t format_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

cudaChannelFormatDesc from_format(CUarray_format format, unsigned channels) {
  cudaChannelFormatDesc desc{};
  const int bits = static_cast<int>(format_bytes(format)) * 8;
  int* const width[] = {&desc.x, &desc.y, &desc.z, &desc.w};
  for (unsigned i = 0; i < channels && i < 4; ++i) *width[i] = bits;
  switch (format) {
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
      desc.f = cudaChannelFormatKindFloat;
      break;
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
      desc.f = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT32:
      desc.f = cudaChannelFormatKindUnsigned;
      break;
    default:
      desc.f = cudaChannelFormatKindNone;
  }
  return desc;
}

CUresult element_bytes(const DriverTable& d, CUarray array, std::size_t* bytes) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  const CUresult code = d.cuArray3DGetDescriptor(&desc, array);
  if (code == CUDA_SUCCESS) *bytes = format_bytes(desc.Format) * desc.NumChannels;
  return code;
}

namespace {

cudaChannelFormatDesc create_channel_desc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

bool descriptor(const cudaChannelFormatDesc* desc, const cudaExtent& extent, unsigned flags,
                CUDA_ARRAY3D_DESCRIPTOR* out) {
  Format format{};
  if (desc == nullptr || !to_format(*desc, &format)) return false;
  *out = {extent.width, extent.height, extent.depth, format.format, format.channels, flags};
  return true;
}

cudaError_t malloc_3d_array(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                            cudaExtent extent, unsigned flags) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (array == nullptr || !descriptor(desc, extent, flags, &shape))
      return CUDA_ERROR_INVALID_VALUE;
    return d.cuArray3DCreate(reinterpret_cast<CUarray*>(array), &shape);
  });
}

cudaError_t malloc_array(cudaArray_t* array, const cudaChannelFormatDesc* desc, std::size_t width,
                         std::size_t height, unsigned flags) {
  return malloc_3d_array(array, desc, {width, height, 0}, flags);
}

cudaError_t malloc_mipmapped(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* desc,
                             cudaExtent extent, unsigned levels, unsigned flags) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (array == nullptr || !descriptor(desc, extent, flags, &shape))
      return CUDA_ERROR_INVALID_VALUE;
    return d.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &shape, levels);
  });
}

cudaError_t free_array(cudaArray_t array) {
  return call_with_context([=](const DriverTable& d) {
    return array == nullptr ? CUDA_SUCCESS : d.cuArrayDestroy(as_array(array));
  });
}

cudaError_t free_mipmapped(cudaMipmappedArray_t array) {
  return call_with_context([=](const DriverTable& d) {
    return array == nullptr ? CUDA_SUCCESS
                            : d.cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(array));
  });
}

cudaError_t array_info(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags,
                       cudaArray_t array) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (const CUresult code = d.cuArray3DGetDescriptor(&shape, as_array(array));
        code != CUDA_SUCCESS)
      return code;
    if (desc != nullptr) *desc = from_format(shape.Format, shape.NumChannels);
    if (extent != nullptr) *extent = {shape.Width, shape.Height, shape.Depth};
    if (flags != nullptr) *flags = shape.Flags;
    return CUDA_SUCCESS;
  });
}

cudaError_t channel_desc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  if (desc == nullptr) return set_last_error(cudaErrorInvalidValue);
  return array_info(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

cudaError_t linear_max_width(std::size_t* width, const cudaChannelFormatDesc* desc, int device) {
  return call_driver([=](const DriverTable& d) {
    Format format{};
    if (width == nullptr || desc == nullptr || !to_format(*desc, &format))
      return CUDA_ERROR_INVALID_VALUE;
    return d.cuDeviceGetTexture1DLinearMaxWidth(width, format.format, format.channels, device);
  });
}

}  // namespace

void install_arrays(RuntimeTable& t) {
  t.cudaCreateChannelDesc = create_channel_desc;
  t.cudaMalloc3DArray = malloc_3d_array;
  t.cudaMallocArray = malloc_array;
  t.cudaMallocMipmappedArray = malloc_mipmapped;
  t.cudaFreeArray = free_array;
  t.cudaFreeMipmappedArray = free_mipmapped;
  t.cudaArrayGetInfo = array_info;
  t.cudaGetChannelDesc = channel_desc;
  t.cudaDeviceGetTexture1DLinearMaxWidth = linear_max_width;
}

}  // namespace cucore::rt
