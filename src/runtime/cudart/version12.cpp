// SPDX-License-Identifier: Apache-2.0
// version12.cpp: functions of libcudart.so.12 whose parameters or structs differ from CUDA 13's.
// Names end with _12 here because the ABI header declares CUDA 13's functions; CUCORE_SYMBOL gives
// them CUDA 12's symbols.
#include "runtime/cudart/version12.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/cudart/export.hpp"
#include "runtime/cudart/prefix.hpp"

using cucore::runtime;
using namespace cucore::cudart;

namespace {

void to_12(const cudaDeviceProp& in, int device, v12::DeviceProp* out) {
  std::memset(out, 0, sizeof *out);
#define COPY(field)                                    \
  static_assert(sizeof out->field == sizeof in.field); \
  std::memcpy(&out->field, &in.field, sizeof out->field);
  COPY(name)
  COPY(uuid)
  COPY(luid)
  COPY(luidDeviceNodeMask)
  COPY(totalGlobalMem)
  COPY(sharedMemPerBlock)
  COPY(regsPerBlock)
  COPY(warpSize)
  COPY(memPitch)
  COPY(maxThreadsPerBlock)
  COPY(maxThreadsDim)
  COPY(maxGridSize)
  COPY(totalConstMem)
  COPY(major)
  COPY(minor)
  COPY(textureAlignment)
  COPY(texturePitchAlignment)
  COPY(multiProcessorCount)
  COPY(integrated)
  COPY(canMapHostMemory)
  COPY(maxTexture1D)
  COPY(maxTexture1DMipmap)
  COPY(maxTexture2D)
  COPY(maxTexture2DMipmap)
  COPY(maxTexture2DLinear)
  COPY(maxTexture2DGather)
  COPY(maxTexture3D)
  COPY(maxTexture3DAlt)
  COPY(maxTextureCubemap)
  COPY(maxTexture1DLayered)
  COPY(maxTexture2DLayered)
  COPY(maxTextureCubemapLayered)
  COPY(maxSurface1D)
  COPY(maxSurface2D)
  COPY(maxSurface3D)
  COPY(maxSurface1DLayered)
  COPY(maxSurface2DLayered)
  COPY(maxSurfaceCubemap)
  COPY(maxSurfaceCubemapLayered)
  COPY(surfaceAlignment)
  COPY(concurrentKernels)
  COPY(ECCEnabled)
  COPY(pciBusID)
  COPY(pciDeviceID)
  COPY(pciDomainID)
  COPY(tccDriver)
  COPY(asyncEngineCount)
  COPY(unifiedAddressing)
  COPY(memoryBusWidth)
  COPY(l2CacheSize)
  COPY(persistingL2CacheMaxSize)
  COPY(maxThreadsPerMultiProcessor)
  COPY(streamPrioritiesSupported)
  COPY(globalL1CacheSupported)
  COPY(localL1CacheSupported)
  COPY(sharedMemPerMultiprocessor)
  COPY(regsPerMultiprocessor)
  COPY(managedMemory)
  COPY(isMultiGpuBoard)
  COPY(multiGpuBoardGroupID)
  COPY(hostNativeAtomicSupported)
  COPY(pageableMemoryAccess)
  COPY(concurrentManagedAccess)
  COPY(computePreemptionSupported)
  COPY(canUseHostPointerForRegisteredMem)
  COPY(cooperativeLaunch)
  COPY(sharedMemPerBlockOptin)
  COPY(pageableMemoryAccessUsesHostPageTables)
  COPY(directManagedMemAccessFromHost)
  COPY(maxBlocksPerMultiProcessor)
  COPY(accessPolicyMaxWindowSize)
  COPY(reservedSharedMemPerBlock)
  COPY(hostRegisterSupported)
  COPY(sparseCudaArraySupported)
  COPY(hostRegisterReadOnlySupported)
  COPY(timelineSemaphoreInteropSupported)
  COPY(memoryPoolsSupported)
  COPY(gpuDirectRDMASupported)
  COPY(gpuDirectRDMAFlushWritesOptions)
  COPY(gpuDirectRDMAWritesOrdering)
  COPY(memoryPoolSupportedHandleTypes)
  COPY(deferredMappingCudaArraySupported)
  COPY(ipcEventSupported)
  COPY(clusterLaunch)
  COPY(unifiedFunctionPointers)
#undef COPY
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    return runtime().cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
  };
  // cooperativeMultiDeviceLaunch stays 0: cudaLaunchCooperativeKernelMultiDevice is not supported
  out->clockRate = attribute(cudaDevAttrClockRate);
  out->deviceOverlap = attribute(cudaDevAttrGpuOverlap);
  out->kernelExecTimeoutEnabled = attribute(cudaDevAttrKernelExecTimeout);
  out->computeMode = attribute(cudaDevAttrComputeMode);
  out->maxTexture1DLinear = attribute(cudaDevAttrMaxTexture1DLinearWidth);
  out->memoryClockRate = attribute(cudaDevAttrMemoryClockRate);
  out->singleToDoublePrecisionPerfRatio = attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio);
}

cudaError_t get_properties(void* out, int device, std::size_t bytes) {
  cudaDeviceProp found{};
  const cudaError_t code =
      runtime().cudaGetDeviceProperties(out == nullptr ? nullptr : &found, device);
  if (code != cudaSuccess) return code;
  v12::DeviceProp result;
  to_12(found, device, &result);
  std::memcpy(out, &result, bytes);
  return cudaSuccess;
}

/// Converts a CUDA 12 device ordinal, or cudaCpuDeviceId (-1) for the host, to a location.
cudaMemLocation location(int device) {
  cudaMemLocation result{};
  result.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  result.id = device == cudaCpuDeviceId ? 0 : device;
  return result;
}

/// Batched copies of CUDA 12 report the index of the failed copy. The driver no longer provides it.
cudaError_t no_failed_index(cudaError_t code, std::size_t* failed) {
  if (code != cudaSuccess && failed != nullptr) *failed = SIZE_MAX;
  return code;
}

}  // namespace

extern "C" {

cudaError_t runtime_version_12(int* version) CUCORE_SYMBOL(cudaRuntimeGetVersion);
cudaError_t runtime_version_12(int* version) {
  const cudaError_t code = runtime().cudaRuntimeGetVersion(version);
  if (code == cudaSuccess) *version = CUCORE_CUDART_VERSION;
  return code;
}

// ---- devices

cudaError_t properties_11(void* out, int device) CUCORE_SYMBOL(cudaGetDeviceProperties);
cudaError_t properties_11(void* out, int device) {
  return get_properties(out, device, v12::kDeviceProp11Bytes);
}
cudaError_t properties_12(void* out, int device) CUCORE_SYMBOL(cudaGetDeviceProperties_v2);
cudaError_t properties_12(void* out, int device) {
  return get_properties(out, device, sizeof(v12::DeviceProp));
}
cudaError_t choose_12(int* device, const v12::DeviceProp* wanted) CUCORE_SYMBOL(cudaChooseDevice);
cudaError_t choose_12(int* device, const v12::DeviceProp* wanted) {
  if (wanted == nullptr) return runtime().cudaChooseDevice(device, nullptr);
  cudaDeviceProp same{};
  same.major = wanted->major;
  same.minor = wanted->minor;
  same.totalGlobalMem = wanted->totalGlobalMem;
  return runtime().cudaChooseDevice(device, &same);
}

// ---- names that CUDA 13 removed

cudaError_t cudaThreadExit() { return runtime().cudaDeviceReset(); }
cudaError_t cudaThreadSynchronize() { return runtime().cudaDeviceSynchronize(); }
cudaError_t cudaThreadGetLimit(size_t* value, cudaLimit limit) {
  return runtime().cudaDeviceGetLimit(value, limit);
}
cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) {
  return runtime().cudaDeviceSetLimit(limit, value);
}
cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return runtime().cudaDeviceGetCacheConfig(config);
}
cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) {
  return runtime().cudaDeviceSetCacheConfig(config);
}
cudaError_t cudaSetDoubleForDevice(double*) { return cudaSuccess; }  // all devices support double
cudaError_t cudaSetDoubleForHost(double*) { return cudaSuccess; }
/// Grids that span devices are not supported by CUDA 13 drivers.
cudaError_t cudaLaunchCooperativeKernelMultiDevice(void*, unsigned, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return runtime().cudaEventElapsedTime(ms, start, end);
}

// ---- memory

cudaError_t advise_12(const void* p, size_t count, cudaMemoryAdvise advice, int device)
    CUCORE_SYMBOL(cudaMemAdvise);
cudaError_t advise_12(const void* p, size_t count, cudaMemoryAdvise advice, int device) {
  return runtime().cudaMemAdvise(p, count, advice, location(device));
}
cudaError_t cudaMemAdvise_v2(const void* p, size_t count, cudaMemoryAdvise advice,
                             cudaMemLocation where) {
  return runtime().cudaMemAdvise(p, count, advice, where);
}
cudaError_t prefetch_12(const void* p, size_t count, int device, cudaStream_t stream)
    CUCORE_SYMBOL(cudaMemPrefetchAsync);
cudaError_t prefetch_12(const void* p, size_t count, int device, cudaStream_t stream) {
  return runtime().cudaMemPrefetchAsync(p, count, location(device), 0, stream);
}
cudaError_t prefetch_12_ptsz(const void* p, size_t count, int device, cudaStream_t stream)
    CUCORE_SYMBOL(cudaMemPrefetchAsync_ptsz);
cudaError_t prefetch_12_ptsz(const void* p, size_t count, int device, cudaStream_t stream) {
  return prefetch_12(p, count, device, per_thread(stream));
}
cudaError_t cudaMemPrefetchAsync_v2(const void* p, size_t count, cudaMemLocation where,
                                    unsigned flags, cudaStream_t stream) {
  return runtime().cudaMemPrefetchAsync(p, count, where, flags, stream);
}
cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void* p, size_t count, cudaMemLocation where,
                                         unsigned flags, cudaStream_t stream) {
  return runtime().cudaMemPrefetchAsync(p, count, where, flags, per_thread(stream));
}
cudaError_t copy_batch_12(void** dsts, void** srcs, size_t* sizes, size_t count,
                          cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                          size_t* failed, cudaStream_t stream) CUCORE_SYMBOL(cudaMemcpyBatchAsync);
cudaError_t copy_batch_12(void** dsts, void** srcs, size_t* sizes, size_t count,
                          cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                          size_t* failed, cudaStream_t stream) {
  return no_failed_index(
      runtime().cudaMemcpyBatchAsync(dsts, const_cast<const void**>(srcs), sizes, count, attributes,
                                     indices, attribute_count, stream),
      failed);
}
cudaError_t copy_batch_12_ptsz(void** dsts, void** srcs, size_t* sizes, size_t count,
                               cudaMemcpyAttributes* attributes, size_t* indices,
                               size_t attribute_count, size_t* failed, cudaStream_t stream)
    CUCORE_SYMBOL(cudaMemcpyBatchAsync_ptsz);
cudaError_t copy_batch_12_ptsz(void** dsts, void** srcs, size_t* sizes, size_t count,
                               cudaMemcpyAttributes* attributes, size_t* indices,
                               size_t attribute_count, size_t* failed, cudaStream_t stream) {
  return copy_batch_12(dsts, srcs, sizes, count, attributes, indices, attribute_count, failed,
                       per_thread(stream));
}
cudaError_t copy_3d_batch_12(size_t count, cudaMemcpy3DBatchOp* operations, size_t* failed,
                             unsigned long long flags, cudaStream_t stream)
    CUCORE_SYMBOL(cudaMemcpy3DBatchAsync);
cudaError_t copy_3d_batch_12(size_t count, cudaMemcpy3DBatchOp* operations, size_t* failed,
                             unsigned long long flags, cudaStream_t stream) {
  return no_failed_index(runtime().cudaMemcpy3DBatchAsync(count, operations, flags, stream),
                         failed);
}
cudaError_t copy_3d_batch_12_ptsz(size_t count, cudaMemcpy3DBatchOp* operations, size_t* failed,
                                  unsigned long long flags, cudaStream_t stream)
    CUCORE_SYMBOL(cudaMemcpy3DBatchAsync_ptsz);
cudaError_t copy_3d_batch_12_ptsz(size_t count, cudaMemcpy3DBatchOp* operations, size_t* failed,
                                  unsigned long long flags, cudaStream_t stream) {
  return copy_3d_batch_12(count, operations, failed, flags, per_thread(stream));
}
cudaError_t pointer_attributes_12(void* out, const void* p) CUCORE_SYMBOL(cudaPointerGetAttributes);
cudaError_t pointer_attributes_12(void* out, const void* p) {
  return get_prefix<cudaPointerAttributes>(
      out, v12::kPointerAttributesBytes,
      [=](cudaPointerAttributes* own) { return runtime().cudaPointerGetAttributes(own, p); });
}

// ---- textures and surfaces

cudaError_t create_texture_12(cudaTextureObject_t* object, const void* resource,
                              const cudaTextureDesc* texture, const void* view)
    CUCORE_SYMBOL(cudaCreateTextureObject);
cudaError_t create_texture_12(cudaTextureObject_t* object, const void* resource,
                              const cudaTextureDesc* texture, const void* view) {
  const Prefix<cudaResourceDesc> what{resource, v12::kResourceDescBytes};
  const Prefix<cudaResourceViewDesc> how{view, v12::kResourceViewDescBytes};
  return runtime().cudaCreateTextureObject(object, what.get(), texture, how.get());
}
cudaError_t create_surface_12(cudaSurfaceObject_t* object, const void* resource)
    CUCORE_SYMBOL(cudaCreateSurfaceObject);
cudaError_t create_surface_12(cudaSurfaceObject_t* object, const void* resource) {
  const Prefix<cudaResourceDesc> what{resource, v12::kResourceDescBytes};
  return runtime().cudaCreateSurfaceObject(object, what.get());
}
cudaError_t texture_resource_12(void* out, cudaTextureObject_t object)
    CUCORE_SYMBOL(cudaGetTextureObjectResourceDesc);
cudaError_t texture_resource_12(void* out, cudaTextureObject_t object) {
  return get_prefix<cudaResourceDesc>(out, v12::kResourceDescBytes, [=](cudaResourceDesc* own) {
    return runtime().cudaGetTextureObjectResourceDesc(own, object);
  });
}
cudaError_t surface_resource_12(void* out, cudaSurfaceObject_t object)
    CUCORE_SYMBOL(cudaGetSurfaceObjectResourceDesc);
cudaError_t surface_resource_12(void* out, cudaSurfaceObject_t object) {
  return get_prefix<cudaResourceDesc>(out, v12::kResourceDescBytes, [=](cudaResourceDesc* own) {
    return runtime().cudaGetSurfaceObjectResourceDesc(own, object);
  });
}
cudaError_t texture_view_12(void* out, cudaTextureObject_t object)
    CUCORE_SYMBOL(cudaGetTextureObjectResourceViewDesc);
cudaError_t texture_view_12(void* out, cudaTextureObject_t object) {
  return get_prefix<cudaResourceViewDesc>(
      out, v12::kResourceViewDescBytes, [=](cudaResourceViewDesc* own) {
        return runtime().cudaGetTextureObjectResourceViewDesc(own, object);
      });
}

// ---- external memory and semaphores

cudaError_t import_memory_12(cudaExternalMemory_t* out, const void* desc)
    CUCORE_SYMBOL(cudaImportExternalMemory);
cudaError_t import_memory_12(cudaExternalMemory_t* out, const void* desc) {
  const Prefix<cudaExternalMemoryHandleDesc> own{desc, v12::kExternalMemoryHandleDescBytes};
  return runtime().cudaImportExternalMemory(out, own.get());
}
cudaError_t import_semaphore_12(cudaExternalSemaphore_t* out, const void* desc)
    CUCORE_SYMBOL(cudaImportExternalSemaphore);
cudaError_t import_semaphore_12(cudaExternalSemaphore_t* out, const void* desc) {
  const Prefix<cudaExternalSemaphoreHandleDesc> own{desc, v12::kExternalSemaphoreHandleDescBytes};
  return runtime().cudaImportExternalSemaphore(out, own.get());
}
cudaError_t mapped_buffer_12(void** out, cudaExternalMemory_t memory, const void* desc)
    CUCORE_SYMBOL(cudaExternalMemoryGetMappedBuffer);
cudaError_t mapped_buffer_12(void** out, cudaExternalMemory_t memory, const void* desc) {
  const Prefix<cudaExternalMemoryBufferDesc> own{desc, v12::kExternalMemoryBufferDescBytes};
  return runtime().cudaExternalMemoryGetMappedBuffer(out, memory, own.get());
}
cudaError_t mapped_mipmap_12(cudaMipmappedArray_t* out, cudaExternalMemory_t memory,
                             const void* desc)
    CUCORE_SYMBOL(cudaExternalMemoryGetMappedMipmappedArray);
cudaError_t mapped_mipmap_12(cudaMipmappedArray_t* out, cudaExternalMemory_t memory,
                             const void* desc) {
  const Prefix<cudaExternalMemoryMipmappedArrayDesc> own{
      desc, v12::kExternalMemoryMipmappedArrayDescBytes};
  return runtime().cudaExternalMemoryGetMappedMipmappedArray(out, memory, own.get());
}

cudaError_t signal_11(const cudaExternalSemaphore_t* semaphores,
                      const v12::SemaphoreSignalParams* params, unsigned count, cudaStream_t stream)
    CUCORE_SYMBOL(cudaSignalExternalSemaphoresAsync);
cudaError_t signal_11(const cudaExternalSemaphore_t* semaphores,
                      const v12::SemaphoreSignalParams* params, unsigned count,
                      cudaStream_t stream) {
  std::vector<cudaExternalSemaphoreSignalParams> own(params == nullptr ? 0 : count);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].params.fence.value = params[i].fence;
    own[i].params.nvSciSync.reserved = params[i].nv_sci_sync;
    own[i].params.keyedMutex.key = params[i].key;
    own[i].flags = params[i].flags;
  }
  return runtime().cudaSignalExternalSemaphoresAsync(
      semaphores, params == nullptr ? nullptr : own.data(), count, stream);
}
cudaError_t signal_11_ptsz(const cudaExternalSemaphore_t* semaphores,
                           const v12::SemaphoreSignalParams* params, unsigned count,
                           cudaStream_t stream)
    CUCORE_SYMBOL(cudaSignalExternalSemaphoresAsync_ptsz);
cudaError_t signal_11_ptsz(const cudaExternalSemaphore_t* semaphores,
                           const v12::SemaphoreSignalParams* params, unsigned count,
                           cudaStream_t stream) {
  return signal_11(semaphores, params, count, per_thread(stream));
}
cudaError_t cudaSignalExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t* semaphores,
                                                 const cudaExternalSemaphoreSignalParams* params,
                                                 unsigned count, cudaStream_t stream) {
  return runtime().cudaSignalExternalSemaphoresAsync(semaphores, params, count, stream);
}
cudaError_t cudaSignalExternalSemaphoresAsync_v2_ptsz(
    const cudaExternalSemaphore_t* semaphores, const cudaExternalSemaphoreSignalParams* params,
    unsigned count, cudaStream_t stream) {
  return runtime().cudaSignalExternalSemaphoresAsync(semaphores, params, count, per_thread(stream));
}
cudaError_t wait_11(const cudaExternalSemaphore_t* semaphores,
                    const v12::SemaphoreWaitParams* params, unsigned count, cudaStream_t stream)
    CUCORE_SYMBOL(cudaWaitExternalSemaphoresAsync);
cudaError_t wait_11(const cudaExternalSemaphore_t* semaphores,
                    const v12::SemaphoreWaitParams* params, unsigned count, cudaStream_t stream) {
  std::vector<cudaExternalSemaphoreWaitParams> own(params == nullptr ? 0 : count);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].params.fence.value = params[i].fence;
    own[i].params.nvSciSync.reserved = params[i].nv_sci_sync;
    own[i].params.keyedMutex.key = params[i].key;
    own[i].params.keyedMutex.timeoutMs = params[i].timeout_ms;
    own[i].flags = params[i].flags;
  }
  return runtime().cudaWaitExternalSemaphoresAsync(
      semaphores, params == nullptr ? nullptr : own.data(), count, stream);
}
cudaError_t wait_11_ptsz(const cudaExternalSemaphore_t* semaphores,
                         const v12::SemaphoreWaitParams* params, unsigned count,
                         cudaStream_t stream) CUCORE_SYMBOL(cudaWaitExternalSemaphoresAsync_ptsz);
cudaError_t wait_11_ptsz(const cudaExternalSemaphore_t* semaphores,
                         const v12::SemaphoreWaitParams* params, unsigned count,
                         cudaStream_t stream) {
  return wait_11(semaphores, params, count, per_thread(stream));
}
cudaError_t cudaWaitExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t* semaphores,
                                               const cudaExternalSemaphoreWaitParams* params,
                                               unsigned count, cudaStream_t stream) {
  return runtime().cudaWaitExternalSemaphoresAsync(semaphores, params, count, stream);
}
cudaError_t cudaWaitExternalSemaphoresAsync_v2_ptsz(const cudaExternalSemaphore_t* semaphores,
                                                    const cudaExternalSemaphoreWaitParams* params,
                                                    unsigned count, cudaStream_t stream) {
  return runtime().cudaWaitExternalSemaphoresAsync(semaphores, params, count, per_thread(stream));
}

// ---- graphs: functions without _v2 have no edge data

cudaError_t add_dependencies_12(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                const cudaGraphNode_t* targets, size_t count)
    CUCORE_SYMBOL(cudaGraphAddDependencies);
cudaError_t add_dependencies_12(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                const cudaGraphNode_t* targets, size_t count) {
  return runtime().cudaGraphAddDependencies(graph, sources, targets, nullptr, count);
}
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                        const cudaGraphNode_t* targets,
                                        const cudaGraphEdgeData* edges, size_t count) {
  return runtime().cudaGraphAddDependencies(graph, sources, targets, edges, count);
}
cudaError_t remove_dependencies_12(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                   const cudaGraphNode_t* targets, size_t count)
    CUCORE_SYMBOL(cudaGraphRemoveDependencies);
cudaError_t remove_dependencies_12(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                   const cudaGraphNode_t* targets, size_t count) {
  return runtime().cudaGraphRemoveDependencies(graph, sources, targets, nullptr, count);
}
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* sources,
                                           const cudaGraphNode_t* targets,
                                           const cudaGraphEdgeData* edges, size_t count) {
  return runtime().cudaGraphRemoveDependencies(graph, sources, targets, edges, count);
}
cudaError_t edges_12(cudaGraph_t graph, cudaGraphNode_t* sources, cudaGraphNode_t* targets,
                     size_t* count) CUCORE_SYMBOL(cudaGraphGetEdges);
cudaError_t edges_12(cudaGraph_t graph, cudaGraphNode_t* sources, cudaGraphNode_t* targets,
                     size_t* count) {
  return runtime().cudaGraphGetEdges(graph, sources, targets, nullptr, count);
}
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* sources,
                                 cudaGraphNode_t* targets, cudaGraphEdgeData* edges,
                                 size_t* count) {
  return runtime().cudaGraphGetEdges(graph, sources, targets, edges, count);
}
cudaError_t dependencies_12(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count)
    CUCORE_SYMBOL(cudaGraphNodeGetDependencies);
cudaError_t dependencies_12(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return runtime().cudaGraphNodeGetDependencies(node, nodes, nullptr, count);
}
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                            cudaGraphEdgeData* edges, size_t* count) {
  return runtime().cudaGraphNodeGetDependencies(node, nodes, edges, count);
}
cudaError_t dependents_12(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count)
    CUCORE_SYMBOL(cudaGraphNodeGetDependentNodes);
cudaError_t dependents_12(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return runtime().cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                              cudaGraphEdgeData* edges, size_t* count) {
  return runtime().cudaGraphNodeGetDependentNodes(node, nodes, edges, count);
}
cudaError_t add_node_12(cudaGraphNode_t* node, cudaGraph_t graph,
                        const cudaGraphNode_t* dependencies, size_t count,
                        cudaGraphNodeParams* params) CUCORE_SYMBOL(cudaGraphAddNode);
cudaError_t add_node_12(cudaGraphNode_t* node, cudaGraph_t graph,
                        const cudaGraphNode_t* dependencies, size_t count,
                        cudaGraphNodeParams* params) {
  return runtime().cudaGraphAddNode(node, graph, dependencies, nullptr, count, params);
}
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                size_t count, cudaGraphNodeParams* params) {
  return runtime().cudaGraphAddNode(node, graph, dependencies, edges, count, params);
}

// ---- stream capture

cudaError_t capture_info_11(cudaStream_t stream, cudaStreamCaptureStatus* status,
                            unsigned long long* id) CUCORE_SYMBOL(cudaStreamGetCaptureInfo);
cudaError_t capture_info_11(cudaStream_t stream, cudaStreamCaptureStatus* status,
                            unsigned long long* id) {
  return runtime().cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t capture_info_11_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                 unsigned long long* id)
    CUCORE_SYMBOL(cudaStreamGetCaptureInfo_ptsz);
cudaError_t capture_info_11_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                 unsigned long long* id) {
  return capture_info_11(per_thread(stream), status, id);
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, size_t* count) {
  return runtime().cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr,
                                            count);
}
cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                             unsigned long long* id, cudaGraph_t* graph,
                                             const cudaGraphNode_t** dependencies, size_t* count) {
  return cudaStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, dependencies, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges, size_t* count) {
  return runtime().cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                             unsigned long long* id, cudaGraph_t* graph,
                                             const cudaGraphNode_t** dependencies,
                                             const cudaGraphEdgeData** edges, size_t* count) {
  return cudaStreamGetCaptureInfo_v3(per_thread(stream), status, id, graph, dependencies, edges,
                                     count);
}
cudaError_t update_dependencies_12(cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count,
                                   unsigned flags)
    CUCORE_SYMBOL(cudaStreamUpdateCaptureDependencies);
cudaError_t update_dependencies_12(cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count,
                                   unsigned flags) {
  return runtime().cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
}
cudaError_t update_dependencies_12_ptsz(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                        size_t count, unsigned flags)
    CUCORE_SYMBOL(cudaStreamUpdateCaptureDependencies_ptsz);
cudaError_t update_dependencies_12_ptsz(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                        size_t count, unsigned flags) {
  return update_dependencies_12(per_thread(stream), dependencies, count, flags);
}
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                   cudaGraphNode_t* dependencies,
                                                   const cudaGraphEdgeData* edges, size_t count,
                                                   unsigned flags) {
  return runtime().cudaStreamUpdateCaptureDependencies(stream, dependencies, edges, count, flags);
}
cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream,
                                                        cudaGraphNode_t* dependencies,
                                                        const cudaGraphEdgeData* edges,
                                                        size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(per_thread(stream), dependencies, edges, count,
                                                flags);
}

}  // extern "C"
