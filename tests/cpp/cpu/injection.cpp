// SPDX-License-Identifier: Apache-2.0
// The k-th allocation of the host fails inside a driver call. The call returns CUDA_SUCCESS or
// CUDA_ERROR_OUT_OF_MEMORY, and later calls succeed. A separate program, because it replaces
// operator new.
#include "injection.hpp"

#include <cstdlib>
#include <new>

thread_local long t_left = -1;
std::atomic<long> g_failures{0};

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  if (t_left >= 0 && t_left-- == 0) {
    g_failures.fetch_add(1);
    throw std::bad_alloc{};
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded))
    return memory;
  throw std::bad_alloc{};
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t a) {
  return allocate(size, static_cast<std::size_t>(a));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

void CUDA_CB nothing(void*) {}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, StreamsAndEvents) {
  each_allocation([] {
    CUstream stream = nullptr;
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUevent event = nullptr;
    CUresult code = cuEventCreate(&event, 0);
    if (code == CUDA_SUCCESS) code = cuEventRecord(event, stream);
    if (code == CUDA_SUCCESS) code = cuStreamWaitEvent(nullptr, event, 0);
    if (code == CUDA_SUCCESS) code = cuLaunchHostFunc(stream, nothing, nullptr);
    const Enough enough;
    if (event) {
      EXPECT_OK(cuEventDestroy(event));
    }
    EXPECT_OK(cuStreamDestroy(stream));
    return code;
  });
}

TEST_F(Injection, Waiting) {
  each_allocation([] { return cuCtxSynchronize(); });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, Memory) {
  each_allocation([] {
    CUdeviceptr a = 0, b = 0;
    void* host = nullptr;
    CUresult code = cuMemAlloc(&a, 4096);
    if (code == CUDA_SUCCESS) code = cuMemAllocAsync(&b, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemAllocHost(&host, 4096);
    if (code == CUDA_SUCCESS) code = cuMemsetD8Async(a, 1, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemcpyDtoDAsync(b, a, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemcpyDtoHAsync(host, b, 4096, nullptr);
    t_left = -1;  // frees are not tested here
    EXPECT_OK(cuMemFreeHost(host));
    EXPECT_OK(b ? cuMemFreeAsync(b, nullptr) : CUDA_SUCCESS);
    EXPECT_OK(cuMemFree(a));
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, ModulesAndLaunches) {
  unsigned* word = words(1);
  each_allocation([&] {
    CUmodule module = nullptr;
    TRY(cuModuleLoadData(&module, kKernels));
    CUfunction function = nullptr;
    CUresult code = cuModuleGetFunction(&function, module, "add");
    if (code == CUDA_SUCCESS)
      code = launch(function, 4, nullptr, reinterpret_cast<CUdeviceptr>(word), 1u);
    const Enough enough;  // a wait may run kernels in this thread, where a failure is sticky
    const CUresult synced = cuCtxSynchronize();
    EXPECT_OK(cuModuleUnload(module));
    return code != CUDA_SUCCESS ? code : synced;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, Graphs) {
  unsigned* word = words(1);
  CUfunction add = kernel("add");
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  each_allocation([&] {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult code = launch(add, 1, stream, reinterpret_cast<CUdeviceptr>(word), 1u);
    if (code == CUDA_SUCCESS) code = cuLaunchHostFunc(stream, nothing, nullptr);
    const long left = t_left;
    t_left = -1;
    const CUresult ended = cuStreamEndCapture(stream, &graph);
    t_left = left;
    if (code == CUDA_SUCCESS) code = ended;
    if (code == CUDA_SUCCESS) code = cuGraphInstantiate(&exec, graph, 0);
    if (code == CUDA_SUCCESS) code = cuGraphLaunch(exec, stream);
    const Enough enough;
    if (exec) cuGraphExecDestroy(exec);
    if (graph) cuGraphDestroy(graph);
    return code;
  });
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuStreamDestroy(stream));
}

}  // namespace
