// SPDX-License-Identifier: Apache-2.0
// A program whose thread_local objects, static objects and exit handlers call the driver. Calls of
// a thread's objects succeed although the driver's per-thread state is younger; calls after the end
// of the driver return CUDA_ERROR_DEINITIALIZED (4).
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cucore/abi/driver.h"

namespace {

constexpr const char kCode[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry store(.param .u64 at) {\n"
    " .reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %rd1, [at]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, 7;\n"
    " st.global.u32 [%rd2], %r1; ret;\n}\n";

void expect(bool holds, const char* where, CUresult code) {
  if (holds) return;
  std::fprintf(stderr, "%s: %d\n", where, static_cast<int>(code));
  _exit(1);
}

/// All families of calls in a destructor, and a kernel.
CUresult use(CUmodule module, CUdeviceptr memory, CUstream stream) {
  CUfunction function = nullptr;
  CUresult code = cuModuleGetFunction(&function, module, "store");
  void* arguments[] = {&memory};
  if (code == CUDA_SUCCESS)
    code = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  if (code == CUDA_SUCCESS) code = cuStreamSynchronize(stream);
  unsigned value = 0;
  if (code == CUDA_SUCCESS) code = cuMemcpyDtoH(&value, memory, sizeof value);
  if (code == CUDA_SUCCESS) expect(value == 7, "what the kernel stored", code);
  return code;
}

struct Late {
  const char* where;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  bool ended = false;  // whether the driver has ended when the destructor runs

  explicit Late(const char* name, bool after) : where{name}, ended{after} {}
  void make() {
    CUresult code = cuInit(0);
    if (code == CUDA_SUCCESS) code = cuDevicePrimaryCtxRetain(&context, 0);
    if (code == CUDA_SUCCESS) code = cuCtxSetCurrent(context);
    if (code == CUDA_SUCCESS) code = cuModuleLoadData(&module, kCode);
    if (code == CUDA_SUCCESS) code = cuMemAlloc(&memory, 4);
    if (code == CUDA_SUCCESS) code = cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    if (code == CUDA_SUCCESS) code = use(module, memory, CU_STREAM_PER_THREAD);
    expect(code == CUDA_SUCCESS, where, code);
  }
  ~Late() {
    if (context == nullptr) return;
    if (ended) {
      const CUresult wanted = CUDA_ERROR_DEINITIALIZED;
      int count = 0;
      const CUresult answers[] = {use(module, memory, stream),
                                  cuModuleUnload(module),
                                  cuMemFree(memory),
                                  cuStreamDestroy(stream),
                                  cuCtxSynchronize(),
                                  cuDevicePrimaryCtxRelease(0),
                                  cuInit(0),
                                  cuDeviceGetCount(&count)};
      for (const CUresult code : answers) expect(code == wanted, where, code);
      return;
    }
    CUcontext current = nullptr;
    CUresult code = cuCtxGetCurrent(&current);
    expect(code == CUDA_SUCCESS && current == context, where, code);
    for (const CUstream on : {stream, CU_STREAM_PER_THREAD, CU_STREAM_LEGACY}) {
      code = use(module, memory, on);
      expect(code == CUDA_SUCCESS, where, code);
    }
    code = cuModuleUnload(module);
    if (code == CUDA_SUCCESS) code = cuMemFree(memory);
    if (code == CUDA_SUCCESS) code = cuStreamDestroy(stream);
    if (code == CUDA_SUCCESS) code = cuDevicePrimaryCtxRelease(0);
    expect(code == CUDA_SUCCESS, where, code);
  }
};

Late before_main{"a static object older than the driver", true};
thread_local Late of_thread{"a thread_local object", false};
Late* at_exit = nullptr;
pthread_key_t key;

void with_key() {
  auto* late = new Late{"the destructor of a key", false};
  late->make();
  pthread_setspecific(key, late);
}

}  // namespace

int main() {
  std::atexit([] {
    const Late late = *at_exit;  // the destructor of the copy makes the calls
    static_cast<void>(late);
  });
  pthread_key_create(&key, [](void* late) { delete static_cast<Late*>(late); });
  for (int round = 0; round < 3; ++round) {
    // Constructed before the first call of the thread, so destroyed after the state of that call.
    std::thread{[] { of_thread.make(); }}.join();
    std::thread{[] { with_key(); }}.join();
  }
  of_thread.make();
  before_main.make();
  at_exit = new Late{"a handler of exit() older than the driver", true};
  at_exit->make();
  return 0;
}
