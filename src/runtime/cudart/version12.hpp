// SPDX-License-Identifier: Apache-2.0
// version12.hpp: structs of the CUDA 12 runtime API whose layout CUDA 13 changed.
#pragma once
#include <cstddef>

#include "cucore/abi/runtime.h"

namespace cucore::cudart::v12 {

struct DeviceProp {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  std::size_t totalConstMem;
  int major;
  int minor;
  std::size_t textureAlignment;
  std::size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int maxTexture1D;
  int maxTexture1DMipmap;
  int maxTexture1DLinear;
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  std::size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  std::size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  std::size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int reserved[63];
};
static_assert(sizeof(DeviceProp) == 1032 && offsetof(DeviceProp, major) == 360 &&
              offsetof(DeviceProp, surfaceAlignment) == 568 &&
              offsetof(DeviceProp, sharedMemPerBlockOptin) == 696);

/// The end of the struct in CUDA 11. The symbol without _v2 fills only that part.
inline constexpr std::size_t kDeviceProp11Bytes = offsetof(DeviceProp, hostRegisterSupported);
static_assert(kDeviceProp11Bytes == 728);

// CUDA 13 appended fields to the structs below: CUDA 12's layout is a prefix of CUDA 13's.
inline constexpr std::size_t kPointerAttributesBytes = 24;
inline constexpr std::size_t kResourceDescBytes = 64;
inline constexpr std::size_t kResourceViewDescBytes = 48;
inline constexpr std::size_t kExternalMemoryHandleDescBytes = 40;
inline constexpr std::size_t kExternalMemoryBufferDescBytes = 24;
inline constexpr std::size_t kExternalMemoryMipmappedArrayDescBytes = 64;
inline constexpr std::size_t kExternalSemaphoreHandleDescBytes = 32;

/// Parameters of the external semaphore functions without _v2.
struct SemaphoreSignalParams {
  unsigned long long fence, nv_sci_sync, key;
  unsigned flags;
};
struct SemaphoreWaitParams {
  unsigned long long fence, nv_sci_sync, key;
  unsigned timeout_ms, padding, flags;
};
static_assert(sizeof(SemaphoreSignalParams) == 32 && sizeof(SemaphoreWaitParams) == 40);

}  // namespace cucore::cudart::v12
