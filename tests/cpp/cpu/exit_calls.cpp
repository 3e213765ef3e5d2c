// SPDX-License-Identifier: Apache-2.0
// A program that exits while its threads call the driver, and whose static objects and handlers of
// exit() call it afterwards. Every call returns: with success before the driver's end, with
// CUDA_ERROR_DEINITIALIZED (4) or another error after it. The argument says how the program ends.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "cucore/abi/driver.h"

namespace {

constexpr const char kCode[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .global .u32 variable;\n"
    ".visible .entry store(.param .u64 at) {\n"
    " .reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %rd1, [at]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, 7;\n"
    " st.global.u32 [%rd2], %r1; ret;\n}\n";

std::atomic<int> rounds{0};

/// One of each family of calls. A failed call is an answer; a crash is not.
CUresult use_everything() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0, pooled = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  void* host = nullptr;
  unsigned value = 0;
  CUresult result = cuInit(0);
  const auto also = [&](CUresult code) {
    if (result == CUDA_SUCCESS) result = code;
  };
  also(cuDevicePrimaryCtxRetain(&context, 0));
  also(cuCtxSetCurrent(context));
  also(cuModuleLoadData(&module, kCode));
  also(cuLibraryLoadData(&library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0));
  also(cuModuleGetFunction(&function, module, "store"));
  also(cuMemAlloc(&memory, 4096));
  also(cuMemAllocHost(&host, 4096));
  also(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  also(cuMemAllocAsync(&pooled, 4096, stream));
  also(cuEventCreate(&event, 0));
  void* arguments[] = {&memory};
  also(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
  also(cuMemcpyDtoHAsync(host, memory, 4, stream));
  also(cuEventRecord(event, stream));
  also(cuLaunchHostFunc(
      stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &rounds));
  also(cuGraphCreate(&graph, 0));
  also(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  also(cuGraphInstantiate(&exec, graph, 0));
  also(cuGraphLaunch(exec, stream));
  also(cuStreamSynchronize(stream));
  also(cuMemcpyDtoH(&value, memory, sizeof value));
  also(cuEventSynchronize(event));
  also(cuCtxSynchronize());
  also(cuGraphExecDestroy(exec));
  also(cuGraphDestroy(graph));
  also(cuMemFreeAsync(pooled, stream));
  also(cuEventDestroy(event));
  also(cuStreamDestroy(stream));
  also(cuMemFreeHost(host));
  also(cuMemFree(memory));
  also(cuLibraryUnload(library));
  also(cuModuleUnload(module));
  also(cuDevicePrimaryCtxRelease(0));
  return result;
}

void expect_end(const char* where, CUresult code) {
  if (code == CUDA_ERROR_DEINITIALIZED) return;
  std::fprintf(stderr, "%s: %d\n", where, static_cast<int>(code));
  _exit(1);
}

/// Destroyed after the driver's end, because it is older.
struct Oldest {
  ~Oldest() {
    if (rounds > 0) expect_end("a static object", use_everything());
  }
} oldest;

thread_local struct OfThread {
  ~OfThread() { static_cast<void>(use_everything()); }
  int used = 0;
} of_thread;

void call_forever() {
  of_thread.used = 1;
  for (;;) static_cast<void>(use_everything());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view way{count > 1 ? arguments[1] : "return"};
  std::atexit([] { expect_end("a handler of exit()", use_everything()); });
  if (const CUresult code = use_everything(); code != CUDA_SUCCESS) {
    std::fprintf(stderr, "in main: %d\n", static_cast<int>(code));
    return 1;
  }
  for (int i = 0; i < 3; ++i) std::thread{call_forever}.detach();
  const int wanted = rounds + 20;
  while (rounds < wanted) std::this_thread::yield();
  if (way == "quick_exit") std::quick_exit(0);
  if (way == "thread") {
    std::thread{[] {
      of_thread.used = 1;
      std::exit(0);
    }}.join();
  }
  if (way == "exit") std::exit(0);
  return 0;
}
