// SPDX-License-Identifier: Apache-2.0
// cuPointer*: attributes of addresses.
#include <cstring>

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/device/peer_access.hpp"

using namespace cucpu::driver;

namespace {

template <class T>
void put(void* data, T value) {
  std::memcpy(data, &value, sizeof(T));
}

Context* context_with_id(std::uint64_t id) {
  // Contexts are few, and the current one is nearly always the right one.
  Context* current = peek_context();
  return current && current->id == id ? current : find_context(id);
}

/// Writes one attribute; false when the memory does not have it.
bool write_attribute(void* data, CUpointer_attribute attribute, const Allocation& a,
                     CUdeviceptr address) {
  const bool managed = is_managed(a);
  const bool is_host = a.kind == MemoryKind::host || a.kind == MemoryKind::registered ||
                       (a.kind == MemoryKind::pool && a.device < 0 && !managed) ||
                       (a.kind == MemoryKind::mapped && a.device < 0);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      Context* context = a.context_id ? context_with_id(a.context_id) : nullptr;
      put(data, context ? context->handle() : CUcontext{nullptr});
      return true;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(data, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put(data, address);
      return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host && !managed) return false;
      put(data, reinterpret_cast<void*>(address));
      return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      put(data, static_cast<unsigned>(a.sync_memops.load()));
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put(data, static_cast<unsigned long long>(a.id));
      return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put(data, static_cast<unsigned>(managed));
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put(data, a.device);
      return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      put(data, static_cast<unsigned>(a.kind == MemoryKind::device && a.own_pages));
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      put(data, reinterpret_cast<void*>(a.base));
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      put(data, a.size);
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put(data, static_cast<unsigned>(1));
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      put(data, static_cast<std::uint64_t>(a.handle_types));
      return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      put(data, 0u);
      return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {  // for the device of the current context
      Context* here = peek_context();
      const bool reads = !here || can_access(*here, address, false);
      const bool writes = reads && (!here || can_access(*here, address, true));
      put(data, writes  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                : reads ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
      return true;
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(data, pool_handle(a));
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put(data, a.size);
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put(data, reinterpret_cast<void*>(a.base));
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      put(data, static_cast<unsigned long long>(a.id));
      return true;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      put(data, 0u);
      return true;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
      put(data, 0);
      return true;
    default:
      return false;  // P2P tokens exist on GPUs only
  }
}

/// The attribute values of memory unknown to the driver.
void write_unknown(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(data, 0);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put(data, -2);
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      put(data, reinterpret_cast<void*>(address));
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      put(data, 0u);
      break;
    default:
      put(data, std::uint64_t{0});
      break;
  }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return guarded([&] {
    require(data && attribute > 0 && attribute <= CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && write_attribute(data, attribute, *a, address));
  });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  return guarded([&] {
    require(attributes && data);
    const AllocationRef a = MemoryMap::instance().find(address);
    for (unsigned i = 0; i < count; ++i) {
      require(data[i] && attributes[i] > 0 &&
              attributes[i] <= CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL);
      if (!a || !write_attribute(data[i], attributes[i], *a, address))
        write_unknown(data[i], attributes[i], a ? 0 : address);
    }
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  return guarded([&] {
    require(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a != nullptr);
    unsigned on;
    std::memcpy(&on, value, sizeof on);
    require(on <= 1);
    a->sync_memops = on != 0;
  });
}

}  // extern "C"
