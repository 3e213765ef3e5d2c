// SPDX-License-Identifier: Apache-2.0
// null_driver.cpp: a CUDA driver whose functions do nothing and succeed. A benchmark on it shows
// the cost of the layers above the driver: CUCORE_DEVICE=cpu CUCORE_CPU_LIBRARY=<this library>. It
// computes nothing; its results are only consistent enough for the benchmarks (the kernel k3 has
// three parameters). Functions that are not defined here return NOT_SUPPORTED.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "cucore/abi/driver.h"
#ifdef CUCORE_BENCH_CALLGRIND
#include <valgrind/callgrind.h>
#endif

namespace {

thread_local CUcontext current = nullptr;
const auto primary = reinterpret_cast<CUcontext>(0x1000);

/// A new handle, never reused, so that identity checks of the callers work.
template <class Handle>
CUresult make(Handle* out) {
  static std::atomic<std::uintptr_t> next{0x100000};
  *out = reinterpret_cast<Handle>(next.fetch_add(64));
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, std::size_t size) {
  static std::atomic<CUdeviceptr> next{0x7000'0000'0000};
  *out = next.fetch_add((size + 511) / 512 * 512);
  return CUDA_SUCCESS;
}

constexpr std::size_t kSizes[] = {8, 4, 4, 8};  // pointer, float, int, double, as in the benchmarks

/// The kernel k<n> is its number of parameters plus one, as a handle.
CUkernel kernel_of(const char* name) {
  const long count = name[0] == 'k' ? std::strtol(name + 1, nullptr, 10) : 0;
  return reinterpret_cast<CUkernel>(static_cast<std::uintptr_t>(count + 1) << 20);
}
std::size_t parameters(std::uintptr_t kernel) { return (kernel >> 20) - 1; }

std::unordered_map<CUstream, bool> capturing;

}  // namespace

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wunused-parameter"

extern "C" {

/// Dumps callgrind's counts since the last call under the given name. No effect outside callgrind.
void cucoreNullDump(const char* name) {
#ifdef CALLGRIND_DUMP_STATS_AT
  CALLGRIND_DUMP_STATS_AT(name);
#else
  (void)name;
#endif
}
int cucoreNullIsCounted() {
#ifdef CALLGRIND_DUMP_STATS_AT
  return RUNNING_ON_VALGRIND != 0;
#else
  return 0;
#endif
}

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  const char* wish = std::getenv("CUCORE_NULL_VERSION");  // tests of older drivers
  return *version = wish != nullptr ? std::atoi(wish) : 13000, CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int room, CUdevice) {
  std::strncpy(name, "null", static_cast<std::size_t>(room));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    default:
      *value = 1;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = primary, CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  return *flags = 0, *active = 1, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = current, CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { return current = context, CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext context) { return current = context, CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext* context) { return *context = current, CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) {
  return *device = 0, current != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  return *id = 1, current != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }

CUresult cuStreamCreate(CUstream* stream, unsigned) { return make(stream); }
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) { return make(stream); }
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream, CUcontext* context) { return *context = primary, CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = capturing[stream] ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  return capturing[stream] = true, CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode** nodes,
                                const CUgraphEdgeData** edges, std::size_t* count) {
  cuStreamIsCapturing(stream, status);
  if (id != nullptr) *id = 1;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(0x2000);
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return capturing[stream] = false, make(graph);
}
CUresult cuEventCreate(CUevent* event, unsigned) { return make(event); }
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* ms, CUevent, CUevent) { return *ms = 1, CUDA_SUCCESS; }

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice) { return make(pool); }
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) { return make(pool); }
CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation*, CUmemAllocationType) {
  return make(pool);
}
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, std::size_t) {
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  return std::memset(value, 0, 8), CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemAlloc(CUdeviceptr* ptr, std::size_t size) { return allocate(ptr, size); }
CUresult cuMemFree(CUdeviceptr) { return CUDA_SUCCESS; }
CUresult cuMemAllocHost(void** memory, std::size_t size) {
  return *memory = std::malloc(size), CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) { return std::free(memory), CUDA_SUCCESS; }
CUresult cuMemAllocAsync(CUdeviceptr* ptr, std::size_t size, CUstream) {
  return allocate(ptr, size);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* ptr, std::size_t size, CUmemoryPool, CUstream) {
  return allocate(ptr, size);
}
CUresult cuMemFreeAsync(CUdeviceptr, CUstream) { return CUDA_SUCCESS; }
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult cuMemcpyHtoD(CUdeviceptr, const void*, std::size_t) { return CUDA_SUCCESS; }
CUresult cuMemcpyDtoH(void*, CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, std::size_t, CUstream) { return CUDA_SUCCESS; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr, const void*, std::size_t, CUstream) { return CUDA_SUCCESS; }
CUresult cuMemcpyDtoHAsync(void*, CUdeviceptr, std::size_t, CUstream) { return CUDA_SUCCESS; }
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, std::size_t, CUstream) { return CUDA_SUCCESS; }
CUresult cuMemsetD16Async(CUdeviceptr, unsigned short, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, std::size_t, CUstream) { return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute, CUdeviceptr) {
  return std::memset(value, 0, 4), CUDA_ERROR_INVALID_VALUE;  // every address is a host address
}
CUresult cuPointerGetAttributes(unsigned, CUpointer_attribute*, void**, CUdeviceptr) {
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return make(library);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return *kernel = kernel_of(name), CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return *function = reinterpret_cast<CUfunction>(kernel), CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel) { return *name = "k", CUDA_SUCCESS; }
CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset,
                              std::size_t* size) {
  if (index >= parameters(reinterpret_cast<std::uintptr_t>(kernel)))
    return CUDA_ERROR_INVALID_VALUE;
  *size = kSizes[index % 4];
  *offset = index / 4 * 24 + (index % 4 == 0 ? 0 : index % 4 == 1 ? 8 : index % 4 == 2 ? 12 : 16);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                            std::size_t* size) {
  return cuKernelGetParamInfo(reinterpret_cast<CUkernel>(function), index, offset, size);
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  return *value = 0, CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void**, void**) {
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph* graph, unsigned) { return make(graph); }
CUresult cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, std::size_t* count) {
  return *count = 0, CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph, unsigned long long) { return make(exec); }
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS, make(exec);
}
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo* info) {
  return info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult cuUserObjectCreate(CUuserObject* object, void*, CUhostFn, unsigned, unsigned) {
  return make(object);
}
CUresult cuUserObjectRelease(CUuserObject, unsigned) { return CUDA_SUCCESS; }
CUresult cuGraphRetainUserObject(CUgraph, CUuserObject, unsigned, unsigned) { return CUDA_SUCCESS; }

/// The newest version of a function defined here; NVIDIA's packages look functions up with it.
CUresult cuGetProcAddress(const char* symbol, void** address, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *address = nullptr;
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    if (*address == nullptr) *address = dlsym(self, (std::string{symbol} + version).c_str());
  }
  if (status != nullptr)
    *status =
        *address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult, const char** text) { return *text = "error", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) {
  return *text = "an error of the null driver", CUDA_SUCCESS;
}

}  // extern "C"
