// SPDX-License-Identifier: Apache-2.0
// forward.cpp: runtime functions that call one driver function with the same parameters, enum
// values and struct layouts.
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

template <auto Member, bool Context, class Runtime, class Driver>
struct Forward;

template <auto Member, bool Context, class... A, class... B>
struct Forward<Member, Context, cudaError_t (*)(A...), CUresult (*)(B...)> {
  static_assert(sizeof...(A) == sizeof...(B));
  static cudaError_t call(A... arguments) {
    const auto body = [&](const DriverTable& d) { return (d.*Member)(cast<B>(arguments)...); };
    if constexpr (Context) {
      return call_with_context(body);
    } else {
      return call_driver(body);
    }
  }
};

template <auto Member, bool Context, class Runtime>
constexpr Runtime forward() {
  using Driver = std::remove_cvref_t<decltype(std::declval<DriverTable>().*Member)>;
  return &Forward<Member, Context, Runtime, Driver>::call;
}

}  // namespace

// NEEDS_CONTEXT: the driver function requires a current context. QUERY: it does not.
#define NEEDS_CONTEXT(name, target) \
  t.name = forward<&DriverTable::target, true, decltype(t.name)>();
#define QUERY(name, target) t.name = forward<&DriverTable::target, false, decltype(t.name)>();

void install_forwards(RuntimeTable& t) {
  // devices
  QUERY(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer)
  QUERY(cudaDeviceGetAttribute, cuDeviceGetAttribute)
  QUERY(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId)
  QUERY(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId)
  QUERY(cudaDeviceGetP2PAttribute, cuDeviceGetP2PAttribute)
  QUERY(cudaDeviceGetHostAtomicCapabilities, cuDeviceGetHostAtomicCapabilities)
  QUERY(cudaDeviceGetP2PAtomicCapabilities, cuDeviceGetP2PAtomicCapabilities)
  QUERY(cudaDeviceGetNvSciSyncAttributes, cuDeviceGetNvSciSyncAttributes)
  QUERY(cudaDeviceGetDevResource, cuDeviceGetDevResource)
  QUERY(cudaDeviceRegisterAsyncNotification, cuDeviceRegisterAsyncNotification)
  QUERY(cudaDeviceUnregisterAsyncNotification, cuDeviceUnregisterAsyncNotification)
  QUERY(cudaDevResourceGenerateDesc, cuDevResourceGenerateDesc)
  QUERY(cudaDevSmResourceSplit, cuDevSmResourceSplit)
  QUERY(cudaDevSmResourceSplitByCount, cuDevSmResourceSplitByCount)
  QUERY(cudaGetExportTable, cuGetExportTable)
  NEEDS_CONTEXT(cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache)
  NEEDS_CONTEXT(cudaDeviceFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites)
  NEEDS_CONTEXT(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig)
  NEEDS_CONTEXT(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig)
  NEEDS_CONTEXT(cudaDeviceGetLimit, cuCtxGetLimit)
  NEEDS_CONTEXT(cudaDeviceSetLimit, cuCtxSetLimit)
  NEEDS_CONTEXT(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange)
  NEEDS_CONTEXT(cudaDeviceSynchronize, cuCtxSynchronize)
  NEEDS_CONTEXT(cudaProfilerStart, cuProfilerStart)
  NEEDS_CONTEXT(cudaProfilerStop, cuProfilerStop)
  // logs
  QUERY(cudaLogsCurrent, cuLogsCurrent)
  QUERY(cudaLogsDumpToFile, cuLogsDumpToFile)
  QUERY(cudaLogsDumpToMemory, cuLogsDumpToMemory)
  QUERY(cudaLogsRegisterCallback, cuLogsRegisterCallback)
  QUERY(cudaLogsUnregisterCallback, cuLogsUnregisterCallback)
  // memory
  NEEDS_CONTEXT(cudaMemGetInfo, cuMemGetInfo)
  NEEDS_CONTEXT(cudaMemAdvise, cuMemAdvise)
  NEEDS_CONTEXT(cudaMemPrefetchAsync, cuMemPrefetchAsync)
  NEEDS_CONTEXT(cudaMemPrefetchBatchAsync, cuMemPrefetchBatchAsync)
  NEEDS_CONTEXT(cudaMemDiscardBatchAsync, cuMemDiscardBatchAsync)
  NEEDS_CONTEXT(cudaMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync)
  NEEDS_CONTEXT(cudaMemGetLocationInfo, cuMemGetLocationInfo)
  NEEDS_CONTEXT(cudaMemRangeGetAttribute, cuMemRangeGetAttribute)
  NEEDS_CONTEXT(cudaMemRangeGetAttributes, cuMemRangeGetAttributes)
  NEEDS_CONTEXT(cudaMemcpyBatchAsync, cuMemcpyBatchAsync)
  NEEDS_CONTEXT(cudaMemcpy3DBatchAsync, cuMemcpy3DBatchAsync)
  NEEDS_CONTEXT(cudaMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync)
  NEEDS_CONTEXT(cudaMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync)
  NEEDS_CONTEXT(cudaFreeAsync, cuMemFreeAsync)
  NEEDS_CONTEXT(cudaMallocAsync, cuMemAllocAsync)
  NEEDS_CONTEXT(cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync)
  NEEDS_CONTEXT(cudaHostGetDevicePointer, cuMemHostGetDevicePointer)
  NEEDS_CONTEXT(cudaHostGetFlags, cuMemHostGetFlags)
  NEEDS_CONTEXT(cudaHostRegister, cuMemHostRegister)
  NEEDS_CONTEXT(cudaHostUnregister, cuMemHostUnregister)
  // sharing between processes and APIs
  NEEDS_CONTEXT(cudaIpcCloseMemHandle, cuIpcCloseMemHandle)
  NEEDS_CONTEXT(cudaIpcGetEventHandle, cuIpcGetEventHandle)
  NEEDS_CONTEXT(cudaIpcGetMemHandle, cuIpcGetMemHandle)
  NEEDS_CONTEXT(cudaIpcOpenEventHandle, cuIpcOpenEventHandle)
  NEEDS_CONTEXT(cudaIpcOpenMemHandle, cuIpcOpenMemHandle)
  NEEDS_CONTEXT(cudaImportExternalMemory, cuImportExternalMemory)
  NEEDS_CONTEXT(cudaDestroyExternalMemory, cuDestroyExternalMemory)
  NEEDS_CONTEXT(cudaExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer)
  NEEDS_CONTEXT(cudaImportExternalSemaphore, cuImportExternalSemaphore)
  NEEDS_CONTEXT(cudaDestroyExternalSemaphore, cuDestroyExternalSemaphore)
  NEEDS_CONTEXT(cudaSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync)
  NEEDS_CONTEXT(cudaWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync)
  NEEDS_CONTEXT(cudaGraphicsMapResources, cuGraphicsMapResources)
  NEEDS_CONTEXT(cudaGraphicsUnmapResources, cuGraphicsUnmapResources)
  NEEDS_CONTEXT(cudaGraphicsUnregisterResource, cuGraphicsUnregisterResource)
  NEEDS_CONTEXT(cudaGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer)
  NEEDS_CONTEXT(cudaGraphicsResourceGetMappedMipmappedArray,
                cuGraphicsResourceGetMappedMipmappedArray)
  NEEDS_CONTEXT(cudaGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags)
  NEEDS_CONTEXT(cudaGraphicsSubResourceGetMappedArray, cuGraphicsSubResourceGetMappedArray)
  NEEDS_CONTEXT(cudaGraphicsGLRegisterBuffer, cuGraphicsGLRegisterBuffer)
  NEEDS_CONTEXT(cudaGraphicsGLRegisterImage, cuGraphicsGLRegisterImage)
  NEEDS_CONTEXT(cudaGraphicsVDPAURegisterOutputSurface, cuGraphicsVDPAURegisterOutputSurface)
  NEEDS_CONTEXT(cudaGraphicsVDPAURegisterVideoSurface, cuGraphicsVDPAURegisterVideoSurface)
  NEEDS_CONTEXT(cudaGraphicsEGLRegisterImage, cuGraphicsEGLRegisterImage)
  NEEDS_CONTEXT(cudaEGLStreamConsumerConnect, cuEGLStreamConsumerConnect)
  NEEDS_CONTEXT(cudaEGLStreamConsumerConnectWithFlags, cuEGLStreamConsumerConnectWithFlags)
  NEEDS_CONTEXT(cudaEGLStreamConsumerDisconnect, cuEGLStreamConsumerDisconnect)
  NEEDS_CONTEXT(cudaEGLStreamConsumerAcquireFrame, cuEGLStreamConsumerAcquireFrame)
  NEEDS_CONTEXT(cudaEGLStreamConsumerReleaseFrame, cuEGLStreamConsumerReleaseFrame)
  NEEDS_CONTEXT(cudaEGLStreamProducerConnect, cuEGLStreamProducerConnect)
  NEEDS_CONTEXT(cudaEGLStreamProducerDisconnect, cuEGLStreamProducerDisconnect)
  NEEDS_CONTEXT(cudaEventCreateFromEGLSync, cuEventCreateFromEGLSync)
  NEEDS_CONTEXT(cudaGLGetDevices, cuGLGetDevices)
  QUERY(cudaVDPAUGetDevice, cuVDPAUGetDevice)
  // events
  NEEDS_CONTEXT(cudaEventCreateWithFlags, cuEventCreate)
  NEEDS_CONTEXT(cudaEventDestroy, cuEventDestroy)
  NEEDS_CONTEXT(cudaEventElapsedTime, cuEventElapsedTime)
  NEEDS_CONTEXT(cudaEventQuery, cuEventQuery)
  NEEDS_CONTEXT(cudaEventRecord, cuEventRecord)
  NEEDS_CONTEXT(cudaEventRecordWithFlags, cuEventRecordWithFlags)
  NEEDS_CONTEXT(cudaEventSynchronize, cuEventSynchronize)
  // streams
  NEEDS_CONTEXT(cudaLaunchHostFunc, cuLaunchHostFunc)
  NEEDS_CONTEXT(cudaLaunchHostFunc_v2, cuLaunchHostFunc_v2)
  NEEDS_CONTEXT(cudaStreamAddCallback, cuStreamAddCallback)
  NEEDS_CONTEXT(cudaStreamAttachMemAsync, cuStreamAttachMemAsync)
  NEEDS_CONTEXT(cudaStreamBeginCapture, cuStreamBeginCapture)
  NEEDS_CONTEXT(cudaStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph)
  NEEDS_CONTEXT(cudaStreamCopyAttributes, cuStreamCopyAttributes)
  NEEDS_CONTEXT(cudaStreamCreateWithFlags, cuStreamCreate)
  NEEDS_CONTEXT(cudaStreamCreateWithPriority, cuStreamCreateWithPriority)
  NEEDS_CONTEXT(cudaStreamDestroy, cuStreamDestroy)
  NEEDS_CONTEXT(cudaStreamGetAttribute, cuStreamGetAttribute)
  NEEDS_CONTEXT(cudaStreamSetAttribute, cuStreamSetAttribute)
  NEEDS_CONTEXT(cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo)
  NEEDS_CONTEXT(cudaStreamGetDevResource, cuStreamGetDevResource)
  NEEDS_CONTEXT(cudaStreamGetDevice, cuStreamGetDevice)
  NEEDS_CONTEXT(cudaStreamGetFlags, cuStreamGetFlags)
  NEEDS_CONTEXT(cudaStreamGetId, cuStreamGetId)
  NEEDS_CONTEXT(cudaStreamGetPriority, cuStreamGetPriority)
  NEEDS_CONTEXT(cudaStreamIsCapturing, cuStreamIsCapturing)
  NEEDS_CONTEXT(cudaStreamQuery, cuStreamQuery)
  NEEDS_CONTEXT(cudaStreamSynchronize, cuStreamSynchronize)
  NEEDS_CONTEXT(cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies)
  NEEDS_CONTEXT(cudaStreamWaitEvent, cuStreamWaitEvent)
  QUERY(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode)
  // libraries
  NEEDS_CONTEXT(cudaLibraryLoadData, cuLibraryLoadData)
  NEEDS_CONTEXT(cudaLibraryLoadFromFile, cuLibraryLoadFromFile)
  NEEDS_CONTEXT(cudaLibraryGetGlobal, cuLibraryGetGlobal)
  NEEDS_CONTEXT(cudaLibraryGetManaged, cuLibraryGetManaged)
  NEEDS_CONTEXT(cudaLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction)
  NEEDS_CONTEXT(cudaLibraryGetKernelCount, cuLibraryGetKernelCount)
  // graphs
  NEEDS_CONTEXT(cudaGraphCreate, cuGraphCreate)
  NEEDS_CONTEXT(cudaGraphDestroy, cuGraphDestroy)
  NEEDS_CONTEXT(cudaGraphClone, cuGraphClone)
  NEEDS_CONTEXT(cudaGraphDebugDotPrint, cuGraphDebugDotPrint)
  NEEDS_CONTEXT(cudaGraphInstantiate, cuGraphInstantiate)
  NEEDS_CONTEXT(cudaGraphInstantiateWithFlags, cuGraphInstantiate)
  NEEDS_CONTEXT(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams)
  NEEDS_CONTEXT(cudaGraphLaunch, cuGraphLaunch)
  NEEDS_CONTEXT(cudaGraphUpload, cuGraphUpload)
  NEEDS_CONTEXT(cudaGraphGetId, cuGraphGetId)
  NEEDS_CONTEXT(cudaGraphGetNodes, cuGraphGetNodes)
  NEEDS_CONTEXT(cudaGraphGetRootNodes, cuGraphGetRootNodes)
  NEEDS_CONTEXT(cudaGraphGetEdges, cuGraphGetEdges)
  NEEDS_CONTEXT(cudaGraphAddDependencies, cuGraphAddDependencies)
  NEEDS_CONTEXT(cudaGraphRemoveDependencies, cuGraphRemoveDependencies)
  NEEDS_CONTEXT(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode)
  NEEDS_CONTEXT(cudaGraphAddEmptyNode, cuGraphAddEmptyNode)
  NEEDS_CONTEXT(cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode)
  NEEDS_CONTEXT(cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode)
  NEEDS_CONTEXT(cudaGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresSignalNode)
  NEEDS_CONTEXT(cudaGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode)
  NEEDS_CONTEXT(cudaGraphAddHostNode, cuGraphAddHostNode)
  NEEDS_CONTEXT(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode)
  NEEDS_CONTEXT(cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode)
  NEEDS_CONTEXT(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph)
  NEEDS_CONTEXT(cudaGraphDestroyNode, cuGraphDestroyNode)
  NEEDS_CONTEXT(cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent)
  NEEDS_CONTEXT(cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent)
  NEEDS_CONTEXT(cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent)
  NEEDS_CONTEXT(cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent)
  NEEDS_CONTEXT(cudaGraphExternalSemaphoresSignalNodeGetParams,
                cuGraphExternalSemaphoresSignalNodeGetParams)
  NEEDS_CONTEXT(cudaGraphExternalSemaphoresSignalNodeSetParams,
                cuGraphExternalSemaphoresSignalNodeSetParams)
  NEEDS_CONTEXT(cudaGraphExternalSemaphoresWaitNodeGetParams,
                cuGraphExternalSemaphoresWaitNodeGetParams)
  NEEDS_CONTEXT(cudaGraphExternalSemaphoresWaitNodeSetParams,
                cuGraphExternalSemaphoresWaitNodeSetParams)
  NEEDS_CONTEXT(cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams)
  NEEDS_CONTEXT(cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams)
  NEEDS_CONTEXT(cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes)
  NEEDS_CONTEXT(cudaGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute)
  NEEDS_CONTEXT(cudaGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute)
  NEEDS_CONTEXT(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams)
  NEEDS_CONTEXT(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams)
  NEEDS_CONTEXT(cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams)
  NEEDS_CONTEXT(cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams)
  NEEDS_CONTEXT(cudaGraphNodeFindInClone, cuGraphNodeFindInClone)
  NEEDS_CONTEXT(cudaGraphNodeGetContainingGraph, cuGraphNodeGetContainingGraph)
  NEEDS_CONTEXT(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies)
  NEEDS_CONTEXT(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes)
  NEEDS_CONTEXT(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled)
  NEEDS_CONTEXT(cudaGraphNodeGetLocalId, cuGraphNodeGetLocalId)
  NEEDS_CONTEXT(cudaGraphNodeGetToolsId, cuGraphNodeGetToolsId)
  NEEDS_CONTEXT(cudaGraphNodeGetType, cuGraphNodeGetType)
  NEEDS_CONTEXT(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled)
  NEEDS_CONTEXT(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams)
  NEEDS_CONTEXT(cudaGraphExecDestroy, cuGraphExecDestroy)
  NEEDS_CONTEXT(cudaGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent)
  NEEDS_CONTEXT(cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent)
  NEEDS_CONTEXT(cudaGraphExecExternalSemaphoresSignalNodeSetParams,
                cuGraphExecExternalSemaphoresSignalNodeSetParams)
  NEEDS_CONTEXT(cudaGraphExecExternalSemaphoresWaitNodeSetParams,
                cuGraphExecExternalSemaphoresWaitNodeSetParams)
  NEEDS_CONTEXT(cudaGraphExecGetFlags, cuGraphExecGetFlags)
  NEEDS_CONTEXT(cudaGraphExecGetId, cuGraphExecGetId)
  NEEDS_CONTEXT(cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams)
  NEEDS_CONTEXT(cudaGraphExecUpdate, cuGraphExecUpdate)
  NEEDS_CONTEXT(cudaGraphRetainUserObject, cuGraphRetainUserObject)
  NEEDS_CONTEXT(cudaGraphReleaseUserObject, cuGraphReleaseUserObject)
  NEEDS_CONTEXT(cudaUserObjectCreate, cuUserObjectCreate)
  NEEDS_CONTEXT(cudaUserObjectRelease, cuUserObjectRelease)
  NEEDS_CONTEXT(cudaUserObjectRetain, cuUserObjectRetain)
  // arrays
  NEEDS_CONTEXT(cudaArrayGetMemoryRequirements, cuArrayGetMemoryRequirements)
  NEEDS_CONTEXT(cudaArrayGetPlane, cuArrayGetPlane)
  NEEDS_CONTEXT(cudaArrayGetSparseProperties, cuArrayGetSparseProperties)
  NEEDS_CONTEXT(cudaMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements)
  NEEDS_CONTEXT(cudaMipmappedArrayGetSparseProperties, cuMipmappedArrayGetSparseProperties)
  NEEDS_CONTEXT(cudaGetMipmappedArrayLevel, cuMipmappedArrayGetLevel)
  // surfaces and textures: both APIs use the same handles
  NEEDS_CONTEXT(cudaDestroySurfaceObject, cuSurfObjectDestroy)
  NEEDS_CONTEXT(cudaDestroyTextureObject, cuTexObjectDestroy)
}

}  // namespace cucore::rt
