// SPDX-License-Identifier: Apache-2.0
// copy.cpp: one-, two- and three-dimensional copies between memory, arrays and peer devices.
#include <algorithm>
#include <cstddef>

#include "runtime/format.hpp"

namespace cucore::rt {
namespace {

struct MemoryTypes {
  CUmemorytype source, destination;
};

/// Memory types of source and destination for a copy kind; unified for cudaMemcpyDefault. Returns
/// false for an unknown kind.
bool memory_types(cudaMemcpyKind kind, MemoryTypes* out) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      *out = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyHostToDevice:
      *out = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDeviceToHost:
      *out = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyDeviceToDevice:
      *out = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDefault:
      *out = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
      return true;
  }
  return false;
}

cudaError_t copy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  return call_with_context([=](const DriverTable& d) -> CUresult {
    MemoryTypes types{};
    if (!memory_types(kind, &types)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    if (count == 0) return CUDA_SUCCESS;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return d.cuMemcpyHtoD(device_pointer(dst), src, count);
      case cudaMemcpyDeviceToHost:
        return d.cuMemcpyDtoH(dst, device_pointer(src), count);
      case cudaMemcpyDeviceToDevice:
        return d.cuMemcpyDtoD(device_pointer(dst), device_pointer(src), count);
      default:
        return d.cuMemcpy(device_pointer(dst), device_pointer(src), count);
    }
  });
}

cudaError_t copy_async(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  return call_with_context([=](const DriverTable& d) -> CUresult {
    MemoryTypes types{};
    if (!memory_types(kind, &types)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    if (count == 0) return CUDA_SUCCESS;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return d.cuMemcpyHtoDAsync(device_pointer(dst), src, count, stream);
      case cudaMemcpyDeviceToHost:
        return d.cuMemcpyDtoHAsync(dst, device_pointer(src), count, stream);
      case cudaMemcpyDeviceToDevice:
        return d.cuMemcpyDtoDAsync(device_pointer(dst), device_pointer(src), count, stream);
      default:
        return d.cuMemcpyAsync(device_pointer(dst), device_pointer(src), count, stream);
    }
  });
}

// ---- two dimensions

/// Source or destination of a two-dimensional copy: memory with a pitch, or an array with an offset
/// in bytes.
struct Endpoint {
  void* memory = nullptr;
  std::size_t pitch = 0;
  CUarray array = nullptr;
  std::size_t x = 0, y = 0;
};

Endpoint memory_endpoint(const void* p, std::size_t pitch) {
  return {const_cast<void*>(p), pitch, nullptr, 0, 0};
}
Endpoint array_endpoint(cudaArray_const_t a, std::size_t x, std::size_t y) {
  return {nullptr, 0, as_array(a), x, y};
}

CUDA_MEMCPY2D rectangle(const Endpoint& dst, const Endpoint& src, std::size_t width,
                        std::size_t height, const MemoryTypes& types) {
  CUDA_MEMCPY2D c{};
  c.srcXInBytes = src.x;
  c.srcY = src.y;
  c.srcMemoryType = src.array != nullptr ? CU_MEMORYTYPE_ARRAY : types.source;
  c.srcHost = src.memory;
  c.srcDevice = device_pointer(src.memory);
  c.srcArray = src.array;
  c.srcPitch = src.pitch;
  c.dstXInBytes = dst.x;
  c.dstY = dst.y;
  c.dstMemoryType = dst.array != nullptr ? CU_MEMORYTYPE_ARRAY : types.destination;
  c.dstHost = dst.memory;
  c.dstDevice = device_pointer(dst.memory);
  c.dstArray = dst.array;
  c.dstPitch = dst.pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return c;
}

cudaError_t copy_rectangle(const Endpoint& dst, const Endpoint& src, std::size_t width,
                           std::size_t height, cudaMemcpyKind kind, bool async,
                           cudaStream_t stream) {
  return call_with_context([&](const DriverTable& d) -> CUresult {
    MemoryTypes types{};
    if (!memory_types(kind, &types)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    const bool narrow_source = src.array == nullptr && src.pitch != 0 && src.pitch < width;
    const bool narrow_target = dst.array == nullptr && dst.pitch != 0 && dst.pitch < width;
    if (narrow_source || narrow_target) return static_cast<CUresult>(cudaErrorInvalidPitchValue);
    const CUDA_MEMCPY2D c = rectangle(dst, src, width, height, types);
    return async ? d.cuMemcpy2DAsync(&c, stream) : d.cuMemcpy2DUnaligned(&c);
  });
}

cudaError_t copy_2d(void* dst, std::size_t dpitch, const void* src, std::size_t spitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return copy_rectangle(memory_endpoint(dst, dpitch), memory_endpoint(src, spitch), width, height,
                        kind, false, nullptr);
}
cudaError_t copy_2d_async(void* dst, std::size_t dpitch, const void* src, std::size_t spitch,
                          std::size_t width, std::size_t height, cudaMemcpyKind kind,
                          cudaStream_t stream) {
  return copy_rectangle(memory_endpoint(dst, dpitch), memory_endpoint(src, spitch), width, height,
                        kind, true, stream);
}
cudaError_t copy_2d_to_array(cudaArray_t dst, std::size_t x, std::size_t y, const void* src,
                             std::size_t spitch, std::size_t width, std::size_t height,
                             cudaMemcpyKind kind) {
  return copy_rectangle(array_endpoint(dst, x, y), memory_endpoint(src, spitch), width, height,
                        kind, false, nullptr);
}
cudaError_t copy_2d_to_array_async(cudaArray_t dst, std::size_t x, std::size_t y, const void* src,
                                   std::size_t spitch, std::size_t width, std::size_t height,
                                   cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rectangle(array_endpoint(dst, x, y), memory_endpoint(src, spitch), width, height,
                        kind, true, stream);
}
cudaError_t copy_2d_from_array(void* dst, std::size_t dpitch, cudaArray_const_t src, std::size_t x,
                               std::size_t y, std::size_t width, std::size_t height,
                               cudaMemcpyKind kind) {
  return copy_rectangle(memory_endpoint(dst, dpitch), array_endpoint(src, x, y), width, height,
                        kind, false, nullptr);
}
cudaError_t copy_2d_from_array_async(void* dst, std::size_t dpitch, cudaArray_const_t src,
                                     std::size_t x, std::size_t y, std::size_t width,
                                     std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rectangle(memory_endpoint(dst, dpitch), array_endpoint(src, x, y), width, height,
                        kind, true, stream);
}
cudaError_t copy_2d_arrays(cudaArray_t dst, std::size_t dx, std::size_t dy, cudaArray_const_t src,
                           std::size_t sx, std::size_t sy, std::size_t width, std::size_t height,
                           cudaMemcpyKind kind) {
  return copy_rectangle(array_endpoint(dst, dx, dy), array_endpoint(src, sx, sy), width, height,
                        kind, false, nullptr);
}

// ---- linear byte ranges of arrays: partial first row, full rows, partial last row

cudaError_t copy_array_bytes(cudaArray_const_t array, std::size_t x, std::size_t y, char* memory,
                             std::size_t count, bool to_array, cudaMemcpyKind kind, bool async,
                             cudaStream_t stream) {
  std::size_t row = 0;
  const cudaError_t described = call_with_context([&](const DriverTable& d) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    const CUresult code = d.cuArray3DGetDescriptor(&shape, as_array(array));
    row = shape.Width * format_bytes(shape.Format) * shape.NumChannels;
    return code;
  });
  if (described != cudaSuccess) return described;
  while (count != 0) {
    if (row == 0 || x >= row) return set_last_error(cudaErrorInvalidValue);
    const bool whole = x == 0 && count >= row;
    const std::size_t width = whole ? row : std::min(count, row - x);
    const std::size_t height = whole ? count / row : 1;
    const Endpoint there = array_endpoint(array, x, y), here = memory_endpoint(memory, width);
    const cudaError_t code = to_array
                                 ? copy_rectangle(there, here, width, height, kind, async, stream)
                                 : copy_rectangle(here, there, width, height, kind, async, stream);
    if (code != cudaSuccess) return code;
    memory += width * height;
    count -= width * height;
    y += height;
    x = 0;
  }
  return cudaSuccess;
}

cudaError_t copy_to_array(cudaArray_t dst, std::size_t x, std::size_t y, const void* src,
                          std::size_t count, cudaMemcpyKind kind) {
  return copy_array_bytes(dst, x, y, static_cast<char*>(const_cast<void*>(src)), count, true, kind,
                          false, nullptr);
}
cudaError_t copy_to_array_async(cudaArray_t dst, std::size_t x, std::size_t y, const void* src,
                                std::size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_array_bytes(dst, x, y, static_cast<char*>(const_cast<void*>(src)), count, true, kind,
                          true, stream);
}
cudaError_t copy_from_array(void* dst, cudaArray_const_t src, std::size_t x, std::size_t y,
                            std::size_t count, cudaMemcpyKind kind) {
  return copy_array_bytes(src, x, y, static_cast<char*>(dst), count, false, kind, false, nullptr);
}
cudaError_t copy_from_array_async(void* dst, cudaArray_const_t src, std::size_t x, std::size_t y,
                                  std::size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_array_bytes(src, x, y, static_cast<char*>(dst), count, false, kind, true, stream);
}
cudaError_t copy_arrays(cudaArray_t dst, std::size_t dx, std::size_t dy, cudaArray_const_t src,
                        std::size_t sx, std::size_t sy, std::size_t count, cudaMemcpyKind) {
  return call_with_context([&](const DriverTable& d) {
    const auto row_bytes = [&](cudaArray_const_t array, std::size_t* bytes) {
      CUDA_ARRAY3D_DESCRIPTOR shape{};
      const CUresult code = d.cuArray3DGetDescriptor(&shape, as_array(array));
      *bytes = shape.Width * format_bytes(shape.Format) * shape.NumChannels;
      return code;
    };
    std::size_t wide = 0, from = 0;
    CUresult code = row_bytes(dst, &wide);
    if (code == CUDA_SUCCESS) code = row_bytes(src, &from);
    if (code == CUDA_SUCCESS && (dx >= wide || sx >= from)) code = CUDA_ERROR_INVALID_VALUE;
    while (code == CUDA_SUCCESS && count != 0) {  // each copy ends where either array's row ends
      CUDA_MEMCPY2D c{};
      c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
      c.srcArray = as_array(src);
      c.dstArray = as_array(dst);
      c.srcXInBytes = sx;
      c.srcY = sy;
      c.dstXInBytes = dx;
      c.dstY = dy;
      c.WidthInBytes = std::min({count, wide - dx, from - sx});
      c.Height = 1;
      code = d.cuMemcpy2D(&c);
      count -= c.WidthInBytes;
      if ((dx += c.WidthInBytes) == wide) dx = 0, ++dy;
      if ((sx += c.WidthInBytes) == from) sx = 0, ++sy;
    }
    return code;
  });
}

// ---- three dimensions and peers

cudaError_t copy_3d(const cudaMemcpy3DParms* p) {
  return converted(to_copy_3d, p,
                   [](const DriverTable& d, const CUDA_MEMCPY3D* c) { return d.cuMemcpy3D(c); });
}

cudaError_t copy_3d_async(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return converted(to_copy_3d, p, [=](const DriverTable& d, const CUDA_MEMCPY3D* c) {
    return d.cuMemcpy3DAsync(c, stream);
  });
}

// CUDA_MEMCPY3D_PEER has CUDA_MEMCPY3D's layout, with contexts in the reserved fields.
static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) &&
              offsetof(CUDA_MEMCPY3D, reserved0) == offsetof(CUDA_MEMCPY3D_PEER, srcContext) &&
              offsetof(CUDA_MEMCPY3D, reserved1) == offsetof(CUDA_MEMCPY3D_PEER, dstContext) &&
              offsetof(CUDA_MEMCPY3D, Depth) == offsetof(CUDA_MEMCPY3D_PEER, Depth));

CUresult to_peer_copy(const DriverTable& d, const cudaMemcpy3DPeerParms& p,
                      CUDA_MEMCPY3D_PEER* out) {
  cudaMemcpy3DParms plain{};
  plain.srcArray = p.srcArray;
  plain.srcPos = p.srcPos;
  plain.srcPtr = p.srcPtr;
  plain.dstArray = p.dstArray;
  plain.dstPos = p.dstPos;
  plain.dstPtr = p.dstPtr;
  plain.extent = p.extent;
  plain.kind = cudaMemcpyDeviceToDevice;
  CUDA_MEMCPY3D c{};
  if (const CUresult code = to_copy_3d(d, plain, &c); code != CUDA_SUCCESS) return code;
  *out = std::bit_cast<CUDA_MEMCPY3D_PEER>(c);
  if (const CUresult code = primary_context(p.srcDevice, &out->srcContext); code != CUDA_SUCCESS)
    return code;
  return primary_context(p.dstDevice, &out->dstContext);
}

cudaError_t copy_3d_peer(const cudaMemcpy3DPeerParms* p) {
  return converted(to_peer_copy, p, [](const DriverTable& d, const CUDA_MEMCPY3D_PEER* c) {
    return d.cuMemcpy3DPeer(c);
  });
}

cudaError_t copy_3d_peer_async(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return converted(to_peer_copy, p, [=](const DriverTable& d, const CUDA_MEMCPY3D_PEER* c) {
    return d.cuMemcpy3DPeerAsync(c, stream);
  });
}

template <class Body>
cudaError_t with_both_contexts(int dst_device, int src_device, Body body) {
  return call_with_context([&](const DriverTable& d) {
    CUcontext dst = nullptr, src = nullptr;
    if (const CUresult code = primary_context(dst_device, &dst); code != CUDA_SUCCESS) return code;
    if (const CUresult code = primary_context(src_device, &src); code != CUDA_SUCCESS) return code;
    return body(d, dst, src);
  });
}

cudaError_t copy_peer(void* dst, int dst_device, const void* src, int src_device,
                      std::size_t count) {
  return with_both_contexts(
      dst_device, src_device, [=](const DriverTable& d, CUcontext to, CUcontext from) {
        return count == 0
                   ? CUDA_SUCCESS
                   : d.cuMemcpyPeer(device_pointer(dst), to, device_pointer(src), from, count);
      });
}

cudaError_t copy_peer_async(void* dst, int dst_device, const void* src, int src_device,
                            std::size_t count, cudaStream_t stream) {
  return with_both_contexts(
      dst_device, src_device, [=](const DriverTable& d, CUcontext to, CUcontext from) {
        return count == 0 ? CUDA_SUCCESS
                          : d.cuMemcpyPeerAsync(device_pointer(dst), to, device_pointer(src), from,
                                                count, stream);
      });
}

}  // namespace

CUresult to_copy_3d(const DriverTable& d, const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* out) {
  *out = {};
  MemoryTypes types{};
  if (!memory_types(p.kind, &types)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  // source and destination each have exactly one of array and pointer
  if ((p.srcArray != nullptr) == (p.srcPtr.ptr != nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if ((p.dstArray != nullptr) == (p.dstPtr.ptr != nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::size_t src_element = 1, dst_element = 1;
  if (p.srcArray != nullptr) {
    if (const CUresult code = element_bytes(d, as_array(p.srcArray), &src_element);
        code != CUDA_SUCCESS)
      return code;
  }
  if (p.dstArray != nullptr) {
    if (const CUresult code = element_bytes(d, as_array(p.dstArray), &dst_element);
        code != CUDA_SUCCESS)
      return code;
  }
  if (p.srcArray != nullptr && p.dstArray != nullptr && src_element != dst_element)
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t element = p.srcArray != nullptr ? src_element : dst_element;
  out->srcXInBytes = p.srcPos.x * src_element;
  out->srcY = p.srcPos.y;
  out->srcZ = p.srcPos.z;
  out->srcMemoryType = p.srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : types.source;
  out->srcHost = p.srcPtr.ptr;
  out->srcDevice = device_pointer(p.srcPtr.ptr);
  out->srcArray = as_array(p.srcArray);
  out->srcPitch = p.srcPtr.pitch;
  out->srcHeight = p.srcPtr.ysize;
  out->dstXInBytes = p.dstPos.x * dst_element;
  out->dstY = p.dstPos.y;
  out->dstZ = p.dstPos.z;
  out->dstMemoryType = p.dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : types.destination;
  out->dstHost = p.dstPtr.ptr;
  out->dstDevice = device_pointer(p.dstPtr.ptr);
  out->dstArray = as_array(p.dstArray);
  out->dstPitch = p.dstPtr.pitch;
  out->dstHeight = p.dstPtr.ysize;
  out->WidthInBytes = p.extent.width * element;
  out->Height = p.extent.height;
  out->Depth = p.extent.depth;
  return CUDA_SUCCESS;
}

void from_copy_3d(const DriverTable& d, const CUDA_MEMCPY3D& c, cudaMemcpy3DParms* out) {
  *out = {};
  std::size_t src_element = 1, dst_element = 1;
  const bool src_array = c.srcMemoryType == CU_MEMORYTYPE_ARRAY,
             dst_array = c.dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (src_array) element_bytes(d, c.srcArray, &src_element);
  if (dst_array) element_bytes(d, c.dstArray, &dst_element);
  const auto memory = [](CUmemorytype type, const void* host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  if (src_array)
    out->srcArray = reinterpret_cast<cudaArray_t>(c.srcArray);
  else
    out->srcPtr = {memory(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcPitch, c.WidthInBytes,
                   c.srcHeight};
  if (dst_array)
    out->dstArray = reinterpret_cast<cudaArray_t>(c.dstArray);
  else
    out->dstPtr = {memory(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstPitch, c.WidthInBytes,
                   c.dstHeight};
  out->srcPos = {c.srcXInBytes / src_element, c.srcY, c.srcZ};
  out->dstPos = {c.dstXInBytes / dst_element, c.dstY, c.dstZ};
  out->extent = {c.WidthInBytes / (src_array ? src_element : dst_element), c.Height, c.Depth};
  const bool from_host = c.srcMemoryType == CU_MEMORYTYPE_HOST,
             to_host = c.dstMemoryType == CU_MEMORYTYPE_HOST;
  const bool unified =
      c.srcMemoryType == CU_MEMORYTYPE_UNIFIED || c.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
  out->kind = unified                ? cudaMemcpyDefault
              : from_host && to_host ? cudaMemcpyHostToHost
              : from_host            ? cudaMemcpyHostToDevice
              : to_host              ? cudaMemcpyDeviceToHost
                                     : cudaMemcpyDeviceToDevice;
}

CUDA_MEMCPY3D flat_copy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D c{};
  MemoryTypes types{CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
  memory_types(kind, &types);
  c.srcMemoryType = types.source;
  c.srcHost = src;
  c.srcDevice = device_pointer(src);
  c.dstMemoryType = types.destination;
  c.dstHost = dst;
  c.dstDevice = device_pointer(dst);
  c.srcPitch = c.dstPitch = c.WidthInBytes = count;
  c.srcHeight = c.dstHeight = 1;
  c.Height = c.Depth = 1;
  return c;
}

void install_copies(RuntimeTable& t) {
  t.cudaMemcpy = copy;
  t.cudaMemcpyAsync = copy_async;
  t.cudaMemcpy2D = copy_2d;
  t.cudaMemcpy2DAsync = copy_2d_async;
  t.cudaMemcpy2DToArray = copy_2d_to_array;
  t.cudaMemcpy2DToArrayAsync = copy_2d_to_array_async;
  t.cudaMemcpy2DFromArray = copy_2d_from_array;
  t.cudaMemcpy2DFromArrayAsync = copy_2d_from_array_async;
  t.cudaMemcpy2DArrayToArray = copy_2d_arrays;
  t.cudaMemcpyToArray = copy_to_array;
  t.cudaMemcpyToArrayAsync = copy_to_array_async;
  t.cudaMemcpyFromArray = copy_from_array;
  t.cudaMemcpyFromArrayAsync = copy_from_array_async;
  t.cudaMemcpyArrayToArray = copy_arrays;
  t.cudaMemcpy3D = copy_3d;
  t.cudaMemcpy3DAsync = copy_3d_async;
  t.cudaMemcpy3DPeer = copy_3d_peer;
  t.cudaMemcpy3DPeerAsync = copy_3d_peer_async;
  t.cudaMemcpyPeer = copy_peer;
  t.cudaMemcpyPeerAsync = copy_peer_async;
}

}  // namespace cucore::rt
