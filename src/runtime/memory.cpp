// SPDX-License-Identifier: Apache-2.0
// memory.cpp: allocation, memset, pointer attributes.
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

cudaError_t allocate(void** pointer, std::size_t size) {
  return call_with_context([=](const DriverTable& d) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    if (size == 0) return CUDA_SUCCESS;
    return d.cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), size);
  });
}

cudaError_t release(void* pointer) {
  return call_with_context([=](const DriverTable& d) {
    return pointer == nullptr ? CUDA_SUCCESS : d.cuMemFree(device_pointer(pointer));
  });
}

cudaError_t host_alloc(void** pointer, std::size_t size, unsigned flags) {
  return call_with_context([=](const DriverTable& d) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    if (size == 0) return CUDA_SUCCESS;
    return d.cuMemHostAlloc(pointer, size, flags);
  });
}

cudaError_t malloc_host(void** pointer, std::size_t size) { return host_alloc(pointer, size, 0); }

cudaError_t free_host(void* pointer) {
  return call_with_context([=](const DriverTable& d) {
    return pointer == nullptr ? CUDA_SUCCESS : d.cuMemFreeHost(pointer);
  });
}

cudaError_t malloc_managed(void** pointer, std::size_t size, unsigned flags) {
  return call_with_context([=](const DriverTable& d) {
    if (pointer == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    return d.cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(pointer), size, flags);
  });
}

CUresult pitched(const DriverTable& d, void** pointer, std::size_t* pitch, std::size_t width,
                 std::size_t rows) {
  if (width == 0 || rows == 0) {
    *pointer = nullptr;
    *pitch = 0;
    return CUDA_SUCCESS;
  }
  return d.cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(pointer), pitch, width, rows, 4);
}

cudaError_t malloc_pitch(void** pointer, std::size_t* pitch, std::size_t width,
                         std::size_t height) {
  return call_with_context([=](const DriverTable& d) {
    if (pointer == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return pitched(d, pointer, pitch, width, height);
  });
}

cudaError_t malloc_3d(cudaPitchedPtr* out, cudaExtent extent) {
  return call_with_context([=](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    out->xsize = extent.width;
    out->ysize = extent.height;
    return pitched(d, &out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
  });
}

// ---- memset

unsigned char low_byte(int value) { return static_cast<unsigned char>(value); }

cudaError_t memset_1d(void* pointer, int value, std::size_t count) {
  return call_with_context([=](const DriverTable& d) {
    return count == 0 ? CUDA_SUCCESS
                      : d.cuMemsetD8(device_pointer(pointer), low_byte(value), count);
  });
}

cudaError_t memset_1d_async(void* pointer, int value, std::size_t count, cudaStream_t stream) {
  return call_with_context([=](const DriverTable& d) {
    return count == 0 ? CUDA_SUCCESS
                      : d.cuMemsetD8Async(device_pointer(pointer), low_byte(value), count, stream);
  });
}

cudaError_t memset_2d(void* pointer, std::size_t pitch, int value, std::size_t width,
                      std::size_t height) {
  return call_with_context([=](const DriverTable& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return d.cuMemsetD2D8(device_pointer(pointer), pitch, low_byte(value), width, height);
  });
}

cudaError_t memset_2d_async(void* pointer, std::size_t pitch, int value, std::size_t width,
                            std::size_t height, cudaStream_t stream) {
  return call_with_context([=](const DriverTable& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return d.cuMemsetD2D8Async(device_pointer(pointer), pitch, low_byte(value), width, height,
                               stream);
  });
}

/// Sets each slice with a 2D memset: the driver has no 3D memset. Slices of full height are
/// contiguous rows and need one call.
template <class Set>
CUresult memset_slices(const cudaPitchedPtr& p, const cudaExtent& extent, Set&& rectangle) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  if (extent.height == p.ysize)
    return rectangle(device_pointer(p.ptr), extent.height * extent.depth);
  for (std::size_t z = 0; z < extent.depth; ++z) {
    const CUresult code = rectangle(device_pointer(p.ptr) + z * p.pitch * p.ysize, extent.height);
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

cudaError_t memset_3d(cudaPitchedPtr p, int value, cudaExtent extent) {
  return call_with_context([&](const DriverTable& d) {
    return memset_slices(p, extent, [&](CUdeviceptr at, std::size_t rows) {
      return d.cuMemsetD2D8(at, p.pitch, low_byte(value), extent.width, rows);
    });
  });
}

cudaError_t memset_3d_async(cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream) {
  return call_with_context([&](const DriverTable& d) {
    return memset_slices(p, extent, [&](CUdeviceptr at, std::size_t rows) {
      return d.cuMemsetD2D8Async(at, p.pitch, low_byte(value), extent.width, rows, stream);
    });
  });
}

// ---- pointer attributes

cudaError_t pointer_attributes(cudaPointerAttributes* out, const void* pointer) {
  return call_with_context([=](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    unsigned type = 0, managed = 0;
    int ordinal = -2;
    CUdeviceptr device = 0;
    void* host = nullptr;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* data[] = {&type, &managed, &ordinal, &device, &host};
    const CUresult code = d.cuPointerGetAttributes(5, which, data, device_pointer(pointer));
    if (code != CUDA_SUCCESS) return code;
    if (type == 0) {  // memory that CUDA did not allocate or register: not an error
      out->type = cudaMemoryTypeUnregistered;
      out->device = -2;
      out->hostPointer = const_cast<void*>(pointer);
      return CUDA_SUCCESS;
    }
    out->type = managed != 0                 ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
    out->device = ordinal;
    out->devicePointer = reinterpret_cast<void*>(device);
    out->hostPointer = host;
    return CUDA_SUCCESS;
  });
}

}  // namespace

void install_memory(RuntimeTable& t) {
  t.cudaMalloc = allocate;
  t.cudaFree = release;
  t.cudaMallocHost = malloc_host;
  t.cudaHostAlloc = host_alloc;
  t.cudaFreeHost = free_host;
  t.cudaMallocManaged = malloc_managed;
  t.cudaMallocPitch = malloc_pitch;
  t.cudaMalloc3D = malloc_3d;
  t.cudaMemset = memset_1d;
  t.cudaMemsetAsync = memset_1d_async;
  t.cudaMemset2D = memset_2d;
  t.cudaMemset2DAsync = memset_2d_async;
  t.cudaMemset3D = memset_3d;
  t.cudaMemset3DAsync = memset_3d_async;
  t.cudaPointerGetAttributes = pointer_attributes;
}

}  // namespace cucore::rt
