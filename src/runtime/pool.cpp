// SPDX-License-Identifier: Apache-2.0
// pool.cpp: memory pools. Attributes, handle types and locations have the driver's enum values.
#include "runtime/state.hpp"

namespace cucore::rt {

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(static_cast<int>(cudaMemPoolAttrReleaseThreshold) ==
              static_cast<int>(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
static_assert(static_cast<int>(cudaMemHandleTypePosixFileDescriptor) ==
              static_cast<int>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
static_assert(static_cast<int>(cudaMemLocationTypeDevice) ==
              static_cast<int>(CU_MEM_LOCATION_TYPE_DEVICE));

namespace {

template <auto Member, class... A>
cudaError_t call(A... arguments) {
  return call_with_context([=](const DriverTable& d) { return (d.*Member)(arguments...); });
}

cudaError_t create(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return call<&DriverTable::cuMemPoolCreate>(pool, reinterpret_cast<const CUmemPoolProps*>(props));
}
cudaError_t destroy(cudaMemPool_t pool) { return call<&DriverTable::cuMemPoolDestroy>(pool); }
cudaError_t trim(cudaMemPool_t pool, std::size_t keep) {
  return call<&DriverTable::cuMemPoolTrimTo>(pool, keep);
}
cudaError_t default_pool(cudaMemPool_t* pool, int device) {
  return call<&DriverTable::cuDeviceGetDefaultMemPool>(pool, device);
}
cudaError_t get_pool(cudaMemPool_t* pool, int device) {
  return call<&DriverTable::cuDeviceGetMemPool>(pool, device);
}
cudaError_t set_pool(int device, cudaMemPool_t pool) {
  return call<&DriverTable::cuDeviceSetMemPool>(device, pool);
}

CUmemLocation* location(cudaMemLocation* p) { return reinterpret_cast<CUmemLocation*>(p); }

cudaError_t default_pool_at(cudaMemPool_t* pool, cudaMemLocation* where,
                            cudaMemAllocationType type) {
  return call<&DriverTable::cuMemGetDefaultMemPool>(pool, location(where),
                                                    static_cast<CUmemAllocationType>(type));
}
cudaError_t get_pool_at(cudaMemPool_t* pool, cudaMemLocation* where, cudaMemAllocationType type) {
  return call<&DriverTable::cuMemGetMemPool>(pool, location(where),
                                             static_cast<CUmemAllocationType>(type));
}
cudaError_t set_pool_at(cudaMemLocation* where, cudaMemAllocationType type, cudaMemPool_t pool) {
  return call<&DriverTable::cuMemSetMemPool>(location(where),
                                             static_cast<CUmemAllocationType>(type), pool);
}
cudaError_t get_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call<&DriverTable::cuMemPoolGetAttribute>(
      pool, static_cast<CUmemPool_attribute>(attribute), value);
}
cudaError_t set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call<&DriverTable::cuMemPoolSetAttribute>(
      pool, static_cast<CUmemPool_attribute>(attribute), value);
}
cudaError_t get_access(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* where) {
  return call<&DriverTable::cuMemPoolGetAccess>(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                                                location(where));
}
cudaError_t set_access(cudaMemPool_t pool, const cudaMemAccessDesc* list, std::size_t count) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return call<&DriverTable::cuMemPoolSetAccess>(
      pool, reinterpret_cast<const CUmemAccessDesc*>(list), count);
}
cudaError_t export_pool(void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type,
                        unsigned flags) {
  return call<&DriverTable::cuMemPoolExportToShareableHandle>(
      handle, pool, static_cast<CUmemAllocationHandleType>(type), flags);
}
cudaError_t import_pool(cudaMemPool_t* pool, void* handle, cudaMemAllocationHandleType type,
                        unsigned flags) {
  return call<&DriverTable::cuMemPoolImportFromShareableHandle>(
      pool, handle, static_cast<CUmemAllocationHandleType>(type), flags);
}
cudaError_t export_pointer(cudaMemPoolPtrExportData* data, void* pointer) {
  return call<&DriverTable::cuMemPoolExportPointer>(reinterpret_cast<CUmemPoolPtrExportData*>(data),
                                                    device_pointer(pointer));
}
cudaError_t import_pointer(void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  return call<&DriverTable::cuMemPoolImportPointer>(
      reinterpret_cast<CUdeviceptr*>(pointer), pool,
      reinterpret_cast<CUmemPoolPtrExportData*>(data));
}
cudaError_t graph_trim(int device) { return call<&DriverTable::cuDeviceGraphMemTrim>(device); }
cudaError_t graph_get(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call<&DriverTable::cuDeviceGetGraphMemAttribute>(
      device, static_cast<CUgraphMem_attribute>(attribute), value);
}
cudaError_t graph_set(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call<&DriverTable::cuDeviceSetGraphMemAttribute>(
      device, static_cast<CUgraphMem_attribute>(attribute), value);
}

}  // namespace

void install_pools(RuntimeTable& t) {
  t.cudaMemPoolCreate = create;
  t.cudaMemPoolDestroy = destroy;
  t.cudaMemPoolTrimTo = trim;
  t.cudaDeviceGetDefaultMemPool = default_pool;
  t.cudaDeviceGetMemPool = get_pool;
  t.cudaDeviceSetMemPool = set_pool;
  t.cudaMemGetDefaultMemPool = default_pool_at;
  t.cudaMemGetMemPool = get_pool_at;
  t.cudaMemSetMemPool = set_pool_at;
  t.cudaMemPoolGetAttribute = get_attribute;
  t.cudaMemPoolSetAttribute = set_attribute;
  t.cudaMemPoolGetAccess = get_access;
  t.cudaMemPoolSetAccess = set_access;
  t.cudaMemPoolExportToShareableHandle = export_pool;
  t.cudaMemPoolImportFromShareableHandle = import_pool;
  t.cudaMemPoolExportPointer = export_pointer;
  t.cudaMemPoolImportPointer = import_pointer;
  t.cudaDeviceGraphMemTrim = graph_trim;
  t.cudaDeviceGetGraphMemAttribute = graph_get;
  t.cudaDeviceSetGraphMemAttribute = graph_set;
}

}  // namespace cucore::rt
