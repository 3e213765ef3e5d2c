// SPDX-License-Identifier: Apache-2.0
// Contexts; queries and settings of devices without a test file of their own.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support.hpp"

namespace {

class Contexts : public DriverTest {};

TEST_F(Contexts, QueriesReturnFlagsDeviceAndVersion) {
  CUdevice device = -1;
  ASSERT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(0, device);
  ASSERT_OK(cuCtxGetDevice_v2(&device, context_));
  EXPECT_EQ(0, device);
  unsigned long long id = 0, other = 0;
  ASSERT_OK(cuCtxGetId(context_, &id));
  ASSERT_OK(cuCtxGetId(nullptr, &other));
  EXPECT_EQ(id, other);
  unsigned version = 0;
  ASSERT_OK(cuCtxGetApiVersion(context_, &version));
  EXPECT_GT(version, 0u);
  int least = -9, greatest = 9;
  ASSERT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(0, least);
  EXPECT_LT(greatest, 0);
  CUexecAffinityParam affinity{};
  ASSERT_OK(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  EXPECT_GT(affinity.param.smCount.val, 0u);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevice(nullptr));
}

TEST_F(Contexts, SettingsAreStored) {
  unsigned flags = 99;
  ASSERT_OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  ASSERT_OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(CU_CTX_SCHED_BLOCKING_SYNC, flags & CU_CTX_SCHED_MASK);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxSetFlags(1u << 30));
  CUfunc_cache cache{};
  ASSERT_OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  ASSERT_OK(cuCtxGetCacheConfig(&cache));
  EXPECT_EQ(CU_FUNC_CACHE_PREFER_L1, cache);
  CUsharedconfig shared{};
  ASSERT_OK(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
  EXPECT_OK(cuCtxGetSharedMemConfig(&shared));
  std::size_t value = 0;
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  ASSERT_OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(4096u, value);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, static_cast<CUlimit>(77)));
  EXPECT_OK(cuCtxResetPersistingL2Cache());
  EXPECT_OK(cuCtxSynchronize_v2(context_));
}

TEST_F(Contexts, DetachOfTheLastUseDestroysTheContext) {
  CUcontext made = nullptr, attached = nullptr;
  ASSERT_OK(cuCtxCreate(&made, nullptr, 0, 0));
  ASSERT_OK(cuCtxAttach(&attached, 0));
  EXPECT_EQ(made, attached);
  ASSERT_OK(cuCtxDetach(made));
  unsigned version = 0;
  EXPECT_OK(cuCtxGetApiVersion(made, &version));
  ASSERT_OK(cuCtxDetach(made));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(made));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxAttach(&attached, 1));
}

TEST_F(Contexts, DestructionDestroysTexturesAndSurfaces) {
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  CUcontext made = nullptr;
  ASSERT_OK(cuCtxCreate(&made, nullptr, 0, 0));
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = 64;
  desc.Format = CU_AD_FORMAT_FLOAT;
  desc.NumChannels = 1;
  desc.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  ASSERT_OK(cuArray3DCreate(&resource.res.array.hArray, &desc));
  const CUDA_TEXTURE_DESC texture{};
  CUtexObject read = 0;
  CUsurfObject written = 0;
  ASSERT_OK(cuTexObjectCreate(&read, &resource, &texture, nullptr));
  ASSERT_OK(cuSurfObjectCreate(&written, &resource));
  ASSERT_OK(cuCtxDestroy(made));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(read));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuSurfObjectDestroy(written));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after) << "they kept the array";
}

TEST_F(Contexts, ContextEventsRecordAndWaitForAllStreams) {
  unsigned* flag = words(1);
  CUstream busy = nullptr, other = nullptr;
  ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(launch(kernel("spin"), 1, busy, address(flag)));
  ASSERT_OK(cuCtxRecordEvent(context_, event));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  ASSERT_OK(cuCtxWaitEvent(context_, event));
  ASSERT_OK(launch(kernel("noop"), 1, other));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
  std::atomic_ref{*static_cast<unsigned*>(flag)} = 1u;
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_OK(cuEventQuery(event));
}

TEST_F(Contexts, StreamsCreatedLaterWaitForContextEvents) {
  unsigned* flag = words(1);
  CUcontext second = nullptr;
  ASSERT_OK(cuCtxCreate(&second, nullptr, 0, 0));
  CUevent event = nullptr;
  CUstream busy = nullptr;
  ASSERT_OK(cuCtxSetCurrent(context_));
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(launch(kernel("spin"), 1, busy, address(flag)));
  ASSERT_OK(cuEventRecord(event, busy));
  ASSERT_OK(cuCtxWaitEvent(second, event));
  ASSERT_OK(cuCtxSetCurrent(second));
  CUstream later = nullptr;
  ASSERT_OK(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(later));
  std::thread{[&] {  // its default stream is created now
    ASSERT_OK(cuCtxSetCurrent(second));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
  }}
      .join();
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuCtxSynchronize());
  CUstream free = nullptr;
  ASSERT_OK(cuStreamCreate(&free, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(cuStreamQuery(free)) << "the event is over";
  ASSERT_OK(cuCtxDestroy(second));
  ASSERT_OK(cuCtxSetCurrent(context_));
}

TEST_F(Contexts, DeprecatedDeviceQueriesSucceed) {
  int major = 0, minor = -1;
  ASSERT_OK(cuDeviceComputeCapability(&major, &minor, 0));
  EXPECT_EQ(9, major);
  EXPECT_EQ(0, minor);
  CUdevprop prop{};
  ASSERT_OK(cuDeviceGetProperties(&prop, 0));
  EXPECT_EQ(1024, prop.maxThreadsPerBlock);
  EXPECT_EQ(32, prop.SIMDWidth);
  char luid[8];
  unsigned mask = 0;
  ASSERT_OK(cuDeviceGetLuid(luid, &mask, 0));
  EXPECT_NE(0u, mask);
  int supported = 9;
  ASSERT_OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
  EXPECT_EQ(0, supported);
  std::size_t width = 0;
  ASSERT_OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, 0));
  EXPECT_GT(width, 1u << 20);
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD};
  unsigned capabilities = 0;
  ASSERT_OK(cuDeviceGetHostAtomicCapabilities(&capabilities, operations, 1, 0));
  EXPECT_NE(0u, capabilities);
  EXPECT_OK(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                       CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
  const void* table = nullptr;
  CUuuid unknown{};
  EXPECT_NE(CUDA_SUCCESS, cuGetExportTable(&table, &unknown));
  EXPECT_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_AUTO));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxSetFlags(9, 0));
}

void note(CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {}
void dumped(void*, int, CUdevice) {}

TEST_F(Contexts, CallbacksOfUnsupportedEventsAreStored) {
  CUasyncCallbackHandle notification = nullptr;
  ASSERT_OK(cuDeviceRegisterAsyncNotification(0, note, nullptr, &notification));
  ASSERT_OK(cuDeviceUnregisterAsyncNotification(0, notification));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuDeviceUnregisterAsyncNotification(0, notification));
  CUcoredumpCallbackHandle start = nullptr, complete = nullptr;
  ASSERT_OK(cuCoredumpRegisterStartCallback(dumped, nullptr, &start));
  ASSERT_OK(cuCoredumpRegisterCompleteCallback(dumped, nullptr, &complete));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCoredumpDeregisterStartCallback(complete));
  ASSERT_OK(cuCoredumpDeregisterStartCallback(start));
  ASSERT_OK(cuCoredumpDeregisterCompleteCallback(complete));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCoredumpRegisterStartCallback(nullptr, nullptr, &start));
}

TEST_F(Contexts, CoreDumpSettingsAreStored) {
  bool on = true;
  std::size_t size = sizeof on;
  ASSERT_OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
  on = false;
  ASSERT_OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
  EXPECT_TRUE(on);
  char name[] = "here";
  size = sizeof name;
  ASSERT_OK(cuCoredumpSetAttribute(CU_COREDUMP_FILE, name, &size));
  char read[64] = {};
  size = sizeof read;
  ASSERT_OK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, read, &size));
  EXPECT_STREQ("here", read);
  size = 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttribute(CU_COREDUMP_FILE, read, &size));
  EXPECT_OK(cuProfilerStart());
  EXPECT_OK(cuProfilerStop());
}

TEST_F(Contexts, GreenContextsReportWorkQueues) {
  CUdevResource queues{}, cores{}, read{};
  ASSERT_OK(cuDeviceGetDevResource(0, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
  EXPECT_EQ(0, queues.wqConfig.device);
  EXPECT_GT(queues.wqConfig.wqConcurrencyLimit, 0u);
  EXPECT_EQ(CU_WORKQUEUE_SCOPE_DEVICE_CTX, queues.wqConfig.sharingScope);
  ASSERT_OK(cuDeviceGetDevResource(0, &cores, CU_DEV_RESOURCE_TYPE_SM));
  queues.wqConfig.wqConcurrencyLimit = 3;
  queues.wqConfig.sharingScope = CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED;
  const auto make = [&](std::vector<CUdevResource> list, CUgreenCtx* green) {
    CUdevResourceDesc desc = nullptr;
    const CUresult code =
        cuDevResourceGenerateDesc(&desc, list.data(), static_cast<unsigned>(list.size()));
    return code != CUDA_SUCCESS ? code
                                : cuGreenCtxCreate(green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM);
  };
  CUgreenCtx green = nullptr, second = nullptr;
  ASSERT_OK(make({cores, queues}, &green));
  ASSERT_OK(cuGreenCtxGetDevResource(green, &read, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
  EXPECT_EQ(3u, read.wqConfig.wqConcurrencyLimit);
  EXPECT_EQ(CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED, read.wqConfig.sharingScope);
  CUstream stream = nullptr;
  ASSERT_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  read = {};
  ASSERT_OK(cuStreamGetDevResource(stream, &read, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
  EXPECT_EQ(3u, read.wqConfig.wqConcurrencyLimit);
  ASSERT_OK(cuGreenCtxGetDevResource(green, &read, CU_DEV_RESOURCE_TYPE_WORKQUEUE));
  ASSERT_OK(make({cores, read}, &second)) << "the queues of another";
  ASSERT_OK(cuGreenCtxDestroy(second));
  ASSERT_OK(make({queues}, &second)) << "with all multiprocessors";
  ASSERT_OK(cuGreenCtxGetDevResource(second, &read, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(cores.sm.smCount, read.sm.smCount);
  ASSERT_OK(cuGreenCtxDestroy(second));
  ASSERT_OK(cuGreenCtxDestroy(green));
  EXPECT_EQ(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, make({cores, queues, queues}, &green));
  queues.wqConfig.wqConcurrencyLimit = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, make({cores, queues}, &green));
}

TEST_F(Contexts, GreenContextsHaveResourcesAndEvents) {
  CUdevResource all{}, part{}, rest{};
  ASSERT_OK(cuCtxGetDevResource(context_, &all, CU_DEV_RESOURCE_TYPE_SM));
  ASSERT_GT(all.sm.smCount, 0u);
  CU_DEV_SM_RESOURCE_GROUP_PARAMS group{};
  group.smCount = 1;
  ASSERT_OK(cuDevSmResourceSplit(&part, 1, &all, &rest, 0, &group));
  EXPECT_EQ(1u, part.sm.smCount);
  EXPECT_EQ(all.sm.smCount - 1, rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0u);
  group.smCount = all.sm.smCount + 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
            cuDevSmResourceSplit(&part, 1, &all, &rest, 0, &group));
  CUdevResourceDesc desc = nullptr;
  ASSERT_OK(cuDevResourceGenerateDesc(&desc, &part, 1));
  CUgreenCtx green = nullptr;
  ASSERT_OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUdevResource read{};
  ASSERT_OK(cuGreenCtxGetDevResource(green, &read, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(1u, read.sm.smCount);
  unsigned long long id = 0;
  EXPECT_OK(cuGreenCtxGetId(green, &id));
  CUevent own = nullptr, event = nullptr;
  ASSERT_OK(cuEventCreate(&own, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxRecordEvent(green, own));  // of another context
  CUcontext primary = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  ASSERT_OK(cuCtxPushCurrent(primary));
  CUevent of_primary = nullptr;
  ASSERT_OK(cuEventCreate(&of_primary, 0));
  EXPECT_OK(cuGreenCtxRecordEvent(green, of_primary));  // the green context is a part of it
  EXPECT_OK(cuEventSynchronize(of_primary));
  ASSERT_OK(cuEventDestroy(of_primary));
  ASSERT_OK(cuCtxPopCurrent(&primary));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  CUcontext inside = nullptr;
  ASSERT_OK(cuCtxFromGreenCtx(&inside, green));
  ASSERT_OK(cuCtxPushCurrent(inside));
  ASSERT_OK(cuEventCreate(&event, 0));
  EXPECT_OK(cuGreenCtxRecordEvent(green, event));
  EXPECT_OK(cuGreenCtxWaitEvent(green, event));
  ASSERT_OK(cuCtxPopCurrent(&inside));
  CUstream stream = nullptr;
  ASSERT_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  ASSERT_OK(cuStreamGetDevResource(stream, &read, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(1u, read.sm.smCount);
  ASSERT_OK(cuStreamDestroy(stream));
  ASSERT_OK(cuGreenCtxDestroy(green));
}

TEST(PeerAccess, PeerAccessBetweenFourDevicesSucceeds) {
  NEEDS_FRESH_PROCESS();
  setenv("CUCORE_CPU_DEVICES", "4", 1);
  ASSERT_OK(cuInit(0));
  CUcontext contexts[4];
  CUdeviceptr memory[4];
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    ASSERT_OK(cuCtxSetCurrent(contexts[i]));
    ASSERT_OK(cuMemAlloc(&memory[i], 4096));
    ASSERT_OK(cuMemsetD32(memory[i], 100u + static_cast<unsigned>(i), 1024));
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      if (i == j) continue;
      int can = 0, value = 0;
      ASSERT_OK(cuDeviceCanAccessPeer(&can, i, j));
      EXPECT_EQ(1, can);
      ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, i, j));
      EXPECT_EQ(1, value);
      ASSERT_OK(cuCtxSetCurrent(contexts[i]));
      unsigned may = 9;
      ASSERT_OK(cuPointerGetAttribute(&may, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory[j]));
      EXPECT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE, may);
      ASSERT_OK(cuCtxEnablePeerAccess(contexts[j], 0));
      ASSERT_OK(cuPointerGetAttribute(&may, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory[j]));
      EXPECT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, may);
      EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(contexts[j], 0));
      ASSERT_OK(cuMemcpyDtoD(memory[i] + 4u * static_cast<unsigned>(j), memory[j] + 2048, 4));
    }
  for (int i = 0; i < 4; ++i) {
    unsigned row[4] = {};
    ASSERT_OK(cuMemcpyDtoH(row, memory[i], sizeof row));
    for (unsigned j = 1; j < 4; ++j)
      if (j != static_cast<unsigned>(i)) {
        EXPECT_EQ(100u + j, row[j]);
      }
  }
  ASSERT_OK(cuCtxSetCurrent(contexts[0]));
  ASSERT_OK(cuCtxDisablePeerAccess(contexts[3]));
  EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(contexts[3]));
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD};
  unsigned capabilities = 0;
  EXPECT_OK(cuDeviceGetP2PAtomicCapabilities(&capabilities, operations, 1, 0, 1));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuMemcpyPeerAsync(memory[0], contexts[0], memory[2], contexts[2], 4096, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  CUDA_MEMCPY3D_PEER box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = memory[3], box.srcContext = contexts[3];
  box.dstDevice = memory[1], box.dstContext = contexts[1];
  box.WidthInBytes = 64, box.Height = box.Depth = 1;
  ASSERT_OK(cuMemcpy3DPeer(&box));
  ASSERT_OK(cuMemcpy3DPeerAsync(&box, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  unsigned value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, memory[1] + 32, 4));
  EXPECT_EQ(103u, value);
}

}  // namespace
