// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls_memory.cpp: memory calls of the call fuzzer: managed, virtual and shared memory,
// pools, arrays and textures; valid and damaged handles of another process.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "calls.hpp"

namespace calls {
namespace {

CUmemLocation location(Bytes& in) {
  CUmemLocation where{};
  where.type = static_cast<CUmemLocationType>(in.next() % 6);
  where.id = static_cast<int>(in.next() % 3) - 1;
  return where;
}

/// Exports a pool as a file descriptor and imports it again; always closes the descriptor.
void share_pool(World& w, Bytes& in) {
  int fd = -1;
  if (cuMemPoolExportToShareableHandle(&fd, in.pick(w.pools),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
    return;
  CUmemoryPool pool = nullptr;
  void* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd + in.next() / 250));
  if (cuMemPoolImportFromShareableHandle(&pool, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0) == CUDA_SUCCESS)
    w.pools.push_back(pool);
  close(fd);
}

void share_physical(World& w, Bytes& in) {
  int fd = -1;
  CUmemGenericAllocationHandle handle = 0;
  if (cuMemExportToShareableHandle(&fd, in.pick(w.physical),
                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
    return;
  if (cuMemImportFromShareableHandle(&handle,
                                     reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS)
    w.physical.push_back(handle);
  close(fd);
}

CUDA_MEMCPY2D copy_params(World& w, Bytes& in) {
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = in.next();
  copy.Height = in.next() % 16;
  copy.srcPitch = copy.dstPitch = in.next();
  const unsigned kinds = in.next();
  if (kinds % 3 == 0) {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = w.host.data();
  } else if (kinds % 3 == 1) {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = w.address(in);
  } else {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = in.pick(w.arrays);
    copy.srcXInBytes = in.next();
    copy.srcY = in.next();
  }
  if (kinds / 3 % 2) {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = w.address(in);
  } else {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = in.pick(w.arrays);
    copy.dstXInBytes = in.next();
    copy.dstY = in.next();
  }
  return copy;
}

}  // namespace

void memory_call(unsigned what, World& w, Bytes& in) {
  CUdeviceptr pointer = 0;
  switch (what) {
    case 0:
      if (cuMemAllocManaged(&pointer, in.size(), in.next() % 5) == CUDA_SUCCESS) w.keep(pointer);
      break;
    case 1:
      cuMemPrefetchAsync(w.address(in), in.size(), location(in), 0, in.pick(w.streams));
      break;
    case 2:
      cuMemAdvise(w.address(in), in.size(), static_cast<CUmem_advise>(in.next() % 8), location(in));
      break;
    case 3:
      if (w.reserved.size() < 4 &&
          cuMemAddressReserve(&pointer, kReserved, 0, 0, 0) == CUDA_SUCCESS)
        w.reserved.push_back(reinterpret_cast<void*>(pointer));
      break;
    case 4: {
      CUmemAllocationProp properties{};
      properties.type = static_cast<CUmemAllocationType>(in.next() % 3);
      properties.location = location(in);
      properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(in.next() % 2);
      CUmemGenericAllocationHandle handle = 0;
      if (cuMemCreate(&handle, in.next() % 4 ? kMapped : in.size(), &properties, 0) == CUDA_SUCCESS)
        w.physical.push_back(handle);
      break;
    }
    case 5:
      pointer = reinterpret_cast<CUdeviceptr>(in.pick(w.reserved)) + (in.next() % 3 << 20);
      if (cuMemMap(pointer, kMapped, 0, in.pick(w.physical), 0) == CUDA_SUCCESS) w.keep(pointer);
      break;
    case 6: {
      CUmemAccessDesc access{};
      access.location = location(in);
      access.flags = static_cast<CUmemAccess_flags>(in.next() % 4);
      cuMemSetAccess(reinterpret_cast<CUdeviceptr>(in.pick(w.reserved)),
                     std::size_t{1 + in.next() % 3u} << 21, &access, 1);
      break;
    }
    case 7:
      cuMemUnmap(reinterpret_cast<CUdeviceptr>(in.pick(w.reserved)),
                 std::size_t{1 + in.next() % 3u} << 21);
      break;
    case 8:
      cuMemRelease(in.pick(w.physical));
      break;
    case 9:
      cuMemAddressFree(reinterpret_cast<CUdeviceptr>(in.pick(w.reserved)), kReserved);
      break;
    case 10:
      share_physical(w, in);
      break;
    case 11: {
      CUipcMemHandle handle{};
      if (cuIpcGetMemHandle(&handle, w.address(in)) == CUDA_SUCCESS)
        w.memory_handles.push_back(handle);
      break;
    }
    case 12: {
      const unsigned n = in.next();
      const CUipcMemHandle handle = n % 2 || w.memory_handles.empty()
                                        ? peer().memory
                                        : w.memory_handles[n / 2 % w.memory_handles.size()];
      if (cuIpcOpenMemHandle(&pointer, w.damaged(handle, in), in.next() % 2) == CUDA_SUCCESS)
        w.keep(pointer);
      break;
    }
    case 13:
      cuIpcCloseMemHandle(w.address(in));
      break;
    case 14: {
      CUipcEventHandle handle{};
      if (cuIpcGetEventHandle(&handle, in.pick(w.events)) == CUDA_SUCCESS)
        w.event_handles.push_back(handle);
      break;
    }
    case 15: {
      const unsigned n = in.next();
      const CUipcEventHandle handle = n % 2 || w.event_handles.empty()
                                          ? peer().event
                                          : w.event_handles[n / 2 % w.event_handles.size()];
      CUevent event = nullptr;
      if (cuIpcOpenEventHandle(&event, w.damaged(handle, in)) == CUDA_SUCCESS)
        w.events.push_back(event);
      break;
    }
    case 16: {
      CUevent event = nullptr;
      if (cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        w.events.push_back(event);
      break;
    }
    case 17: {
      CUmemPoolProps props{};
      props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
      props.maxSize = in.next() % 2 ? 1 << 20 : 0;
      CUmemoryPool pool = nullptr;
      if (cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS) w.pools.push_back(pool);
      break;
    }
    case 18:
      share_pool(w, in);
      break;
    case 19: {
      CUmemPoolPtrExportData data{};
      if (cuMemPoolExportPointer(&data, w.address(in)) == CUDA_SUCCESS)
        w.pointer_handles.push_back(data);
      break;
    }
    case 20: {
      if (w.pointer_handles.empty()) break;
      auto data = w.damaged(w.pointer_handles[in.next() % w.pointer_handles.size()], in);
      if (cuMemPoolImportPointer(&pointer, in.pick(w.pools), &data) == CUDA_SUCCESS)
        w.keep(pointer);
      break;
    }
    case 21: {
      cuuint64_t value = in.size();
      const auto attribute = static_cast<CUmemPool_attribute>(in.next() % 16);
      if (in.next() % 2)
        cuMemPoolSetAttribute(in.pick(w.pools), attribute, &value);
      else
        cuMemPoolGetAttribute(in.pick(w.pools), attribute, &value);
      break;
    }
    case 22:
      cuMemPoolTrimTo(in.pick(w.pools), in.size());
      break;
    case 23: {
      CUDA_ARRAY_DESCRIPTOR descriptor{};
      descriptor.Width = in.next();
      descriptor.Height = in.next() % 40;
      descriptor.Format = static_cast<CUarray_format>(in.next() % 4 ? 0x20 : in.next());
      descriptor.NumChannels = in.next() % 5;
      CUarray array = nullptr;
      if (cuArrayCreate(&array, &descriptor) == CUDA_SUCCESS) w.arrays.push_back(array);
      break;
    }
    case 24:
      cuArrayDestroy(in.pick(w.arrays));
      break;
    case 25: {
      const CUDA_MEMCPY2D copy = copy_params(w, in);
      cuMemcpy2DAsync(&copy, in.pick(w.streams));
      break;
    }
    case 26: {
      CUDA_RESOURCE_DESC resource{};
      resource.resType = static_cast<CUresourcetype>(in.next() % 4);
      if (resource.resType == CU_RESOURCE_TYPE_ARRAY) {
        resource.res.array.hArray = in.pick(w.arrays);
      } else {
        resource.res.linear = {w.address(in), CU_AD_FORMAT_FLOAT, in.next() % 5u, in.size()};
      }
      CUDA_TEXTURE_DESC description{};
      description.addressMode[0] = static_cast<CUaddress_mode>(in.next() % 5);
      description.filterMode = static_cast<CUfilter_mode>(in.next() % 3);
      CUtexObject texture = 0;
      if (cuTexObjectCreate(&texture, &resource, &description, nullptr) == CUDA_SUCCESS)
        w.textures.push_back(texture);
      else
        cuTexObjectDestroy(in.pick(w.textures));
      break;
    }
    default: {
      unsigned long long value[2] = {};
      cuPointerGetAttribute(value, static_cast<CUpointer_attribute>(in.next() % 22), w.address(in));
      break;
    }
  }
}

}  // namespace calls
