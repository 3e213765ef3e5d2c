// SPDX-License-Identifier: Apache-2.0
// properties.cpp: cudaGetDeviceProperties, filled from the driver's attributes.
#include <atomic>
#include <cstring>

#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

struct IntField {
  CUdevice_attribute attribute;
  int cudaDeviceProp::*field;
};
struct SizeField {
  CUdevice_attribute attribute;
  std::size_t cudaDeviceProp::*field;
};

#define ATTRIBUTE(name, field) \
  { CU_DEVICE_ATTRIBUTE_##name, &cudaDeviceProp::field }

constexpr IntField kInts[] = {
    ATTRIBUTE(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
    ATTRIBUTE(WARP_SIZE, warpSize),
    ATTRIBUTE(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, major),
    ATTRIBUTE(COMPUTE_CAPABILITY_MINOR, minor),
    ATTRIBUTE(MULTIPROCESSOR_COUNT, multiProcessorCount),
    ATTRIBUTE(INTEGRATED, integrated),
    ATTRIBUTE(CAN_MAP_HOST_MEMORY, canMapHostMemory),
    ATTRIBUTE(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
    ATTRIBUTE(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, maxTexture1DMipmap),
    ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_WIDTH, maxTextureCubemap),
    ATTRIBUTE(MAXIMUM_SURFACE1D_WIDTH, maxSurface1D),
    ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_WIDTH, maxSurfaceCubemap),
    ATTRIBUTE(CONCURRENT_KERNELS, concurrentKernels),
    ATTRIBUTE(ECC_ENABLED, ECCEnabled),
    ATTRIBUTE(PCI_BUS_ID, pciBusID),
    ATTRIBUTE(PCI_DEVICE_ID, pciDeviceID),
    ATTRIBUTE(PCI_DOMAIN_ID, pciDomainID),
    ATTRIBUTE(TCC_DRIVER, tccDriver),
    ATTRIBUTE(ASYNC_ENGINE_COUNT, asyncEngineCount),
    ATTRIBUTE(UNIFIED_ADDRESSING, unifiedAddressing),
    ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
    ATTRIBUTE(L2_CACHE_SIZE, l2CacheSize),
    ATTRIBUTE(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
    ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
    ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
    ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
    ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
    ATTRIBUTE(MANAGED_MEMORY, managedMemory),
    ATTRIBUTE(MULTI_GPU_BOARD, isMultiGpuBoard),
    ATTRIBUTE(MULTI_GPU_BOARD_GROUP_ID, multiGpuBoardGroupID),
    ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED, hostNativeAtomicSupported),
    ATTRIBUTE(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
    ATTRIBUTE(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
    ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
    ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
    ATTRIBUTE(COOPERATIVE_LAUNCH, cooperativeLaunch),
    ATTRIBUTE(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, pageableMemoryAccessUsesHostPageTables),
    ATTRIBUTE(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, directManagedMemAccessFromHost),
    ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
    ATTRIBUTE(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
    ATTRIBUTE(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
    ATTRIBUTE(SPARSE_CUDA_ARRAY_SUPPORTED, sparseCudaArraySupported),
    ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED, hostRegisterReadOnlySupported),
    ATTRIBUTE(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, timelineSemaphoreInteropSupported),
    ATTRIBUTE(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
    ATTRIBUTE(GPU_DIRECT_RDMA_SUPPORTED, gpuDirectRDMASupported),
    ATTRIBUTE(GPU_DIRECT_RDMA_WRITES_ORDERING, gpuDirectRDMAWritesOrdering),
    ATTRIBUTE(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferredMappingCudaArraySupported),
    ATTRIBUTE(IPC_EVENT_SUPPORTED, ipcEventSupported),
    ATTRIBUTE(CLUSTER_LAUNCH, clusterLaunch),
    ATTRIBUTE(UNIFIED_FUNCTION_POINTERS, unifiedFunctionPointers),
    ATTRIBUTE(NUMA_CONFIG, deviceNumaConfig),
    ATTRIBUTE(NUMA_ID, deviceNumaId),
    ATTRIBUTE(MPS_ENABLED, mpsEnabled),
    ATTRIBUTE(HOST_NUMA_ID, hostNumaId),
    ATTRIBUTE(HOST_NUMA_MULTINODE_IPC_SUPPORTED, hostNumaMultinodeIpcSupported),
};

constexpr SizeField kSizes[] = {
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    ATTRIBUTE(MAX_PITCH, memPitch),
    ATTRIBUTE(TOTAL_CONSTANT_MEMORY, totalConstMem),
    ATTRIBUTE(TEXTURE_ALIGNMENT, textureAlignment),
    ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
    ATTRIBUTE(SURFACE_ALIGNMENT, surfaceAlignment),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
    ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
};
#undef ATTRIBUTE

/// Attributes of one extent, in the order x, y, z.
struct Extents {
  int (cudaDeviceProp::*field)[3];
  CUdevice_attribute attribute[3];
};
struct Pairs {
  int (cudaDeviceProp::*field)[2];
  CUdevice_attribute attribute[2];
};

constexpr Extents kExtents[] = {
    {&cudaDeviceProp::maxThreadsDim,
     {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z}},
    {&cudaDeviceProp::maxGridSize,
     {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z}},
    {&cudaDeviceProp::maxTexture2DLinear,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH}},
    {&cudaDeviceProp::maxTexture3D,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH}},
    {&cudaDeviceProp::maxTexture3DAlt,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE}},
    {&cudaDeviceProp::maxTexture2DLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS}},
    {&cudaDeviceProp::maxSurface3D,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH}},
    {&cudaDeviceProp::maxSurface2DLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS}},
};

constexpr Pairs kPairs[] = {
    {&cudaDeviceProp::maxTexture2D,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT}},
    {&cudaDeviceProp::maxTexture2DMipmap,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT}},
    {&cudaDeviceProp::maxTexture2DGather,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT}},
    {&cudaDeviceProp::maxTexture1DLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS}},
    {&cudaDeviceProp::maxTextureCubemapLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS}},
    {&cudaDeviceProp::maxSurface2D,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT}},
    {&cudaDeviceProp::maxSurface1DLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS}},
    {&cudaDeviceProp::maxSurfaceCubemapLayered,
     {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS}},
};

/// Value of an attribute, or 0 if the driver does not know it.
int attribute(const DriverTable& d, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return d.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

void query_properties(const DriverTable& d, CUdevice device, cudaDeviceProp* prop) {
  std::memset(prop, 0, sizeof *prop);
  d.cuDeviceGetName(prop->name, sizeof prop->name, device);
  d.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&prop->uuid), device);
  d.cuDeviceGetLuid(prop->luid, &prop->luidDeviceNodeMask, device);  // Windows only
  d.cuDeviceTotalMem(&prop->totalGlobalMem, device);
  for (const IntField& f : kInts) prop->*f.field = attribute(d, device, f.attribute);
  for (const SizeField& f : kSizes)
    prop->*f.field = static_cast<std::size_t>(attribute(d, device, f.attribute));
  for (const Extents& f : kExtents) {
    for (int i = 0; i < 3; ++i) (prop->*f.field)[i] = attribute(d, device, f.attribute[i]);
  }
  for (const Pairs& f : kPairs) {
    for (int i = 0; i < 2; ++i) (prop->*f.field)[i] = attribute(d, device, f.attribute[i]);
  }
  prop->gpuDirectRDMAFlushWritesOptions = static_cast<unsigned>(
      attribute(d, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS));
  prop->memoryPoolSupportedHandleTypes = static_cast<unsigned>(
      attribute(d, device, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES));
  prop->gpuPciDeviceID =
      static_cast<unsigned>(attribute(d, device, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID));
  prop->gpuPciSubsystemID =
      static_cast<unsigned>(attribute(d, device, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID));
}

/// Caches the properties of each device: a query needs about a hundred driver calls, and the values
/// never change.
cudaError_t get_properties(cudaDeviceProp* prop, int ordinal) {
  return call_driver([=](const DriverTable& d) {
    if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdevice device = 0;
    if (const CUresult code = d.cuDeviceGet(&device, ordinal); code != CUDA_SUCCESS) return code;
    static std::atomic<const cudaDeviceProp*> cached[64];  // never freed
    if (ordinal >= 64) return query_properties(d, device, prop), CUDA_SUCCESS;
    const cudaDeviceProp* found = cached[ordinal].load(std::memory_order_acquire);
    if (found == nullptr) {
      auto* const made = new cudaDeviceProp;
      query_properties(d, device, made);
      if (cached[ordinal].compare_exchange_strong(found, made))
        found = made;
      else
        delete made;  // another thread stored its copy first
    }
    *prop = *found;
    return CUDA_SUCCESS;
  });
}

}  // namespace

void install_properties(RuntimeTable& t) { t.cudaGetDeviceProperties = get_properties; }

}  // namespace cucore::rt
