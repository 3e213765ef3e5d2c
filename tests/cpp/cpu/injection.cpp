// The k-th allocation of the host fails inside a driver call: the answer is CUDA_SUCCESS or
// CUDA_ERROR_OUT_OF_MEMORY, the process lives, and afterwards everything works. In a program of its
// own: it replaces operator new.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "support.hpp"

namespace {

thread_local long t_left = -1;  // allocations of this thread until one fails; negative: none will
std::atomic<long> g_failures{0};

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

class Injection : public DriverTest {
 protected:
  /// Calls `body` again and again, each time with a later allocation failing, until none fails.
  void each_allocation(const std::function<CUresult()>& body) {
    for (long k = 0; k < 10000; ++k) {
      const long before = g_failures.load();
      t_left = k;
      const CUresult code = body();
      t_left = -1;
      const bool failed = g_failures.load() != before;
      ASSERT_TRUE(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY)
          << "allocation " << k << ": " << code;
      if (!failed) {
        ASSERT_EQ(CUDA_SUCCESS, code);
        ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
        ASSERT_GT(k, 0) << "nothing was allocated: the test tests nothing";
        return;
      }
      ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize()) << "allocation " << k;
    }
    FAIL() << "there is no end to the allocations";
  }
};

#define TRY(call) \
  if (const CUresult code_of_call = (call); code_of_call != 0) return code_of_call

// promise: Whichever allocation fails inside a driver call, the answer is an error and nothing half
// made is left
TEST_F(Injection, StreamsAndEvents) {
  each_allocation([] {
    CUstream stream = nullptr;
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUevent event = nullptr;
    CUresult code = cuEventCreate(&event, 0);
    if (code == CUDA_SUCCESS) code = cuEventRecord(event, stream);
    if (code == CUDA_SUCCESS) code = cuStreamWaitEvent(nullptr, event, 0);
    if (code == CUDA_SUCCESS) code = cuLaunchHostFunc(stream, nothing, nullptr);
    if (event) cuEventDestroy(event);
    cuStreamDestroy(stream);
    return code;
  });
}

// promise: Whichever allocation fails inside a driver call, the answer is an error and nothing half
// made is left
TEST_F(Injection, Memory) {
  std::size_t free_before = 0, free_after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&free_before, &total));
  each_allocation([] {
    CUdeviceptr a = 0, b = 0;
    void* host = nullptr;
    CUresult code = cuMemAlloc(&a, 4096);
    if (code == CUDA_SUCCESS) code = cuMemAllocAsync(&b, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemAllocHost(&host, 4096);
    if (code == CUDA_SUCCESS) code = cuMemsetD8Async(a, 1, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemcpyDtoDAsync(b, a, 4096, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemcpyDtoHAsync(host, b, 4096, nullptr);
    t_left = -1;  // freeing is not what is tested here
    EXPECT_OK(cuMemFreeHost(host));
    EXPECT_OK(b ? cuMemFreeAsync(b, nullptr) : CUDA_SUCCESS);
    EXPECT_OK(cuMemFree(a));
    return code;
  });
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before, free_after);
}

// promise: Whichever allocation fails inside a driver call, the answer is an error and nothing half
// made is left
TEST_F(Injection, ModulesAndLaunches) {
  unsigned* word = words(1);
  each_allocation([&] {
    CUmodule module = nullptr;
    TRY(cuModuleLoadData(&module, kKernels));
    CUfunction function = nullptr;
    CUresult code = cuModuleGetFunction(&function, module, "add");
    if (code == CUDA_SUCCESS)
      code = launch(function, 4, nullptr, reinterpret_cast<CUdeviceptr>(word), 1u);
    const CUresult synced = cuCtxSynchronize();
    cuModuleUnload(module);
    return code != CUDA_SUCCESS ? code : synced;
  });
}

// promise: Whichever allocation fails inside a driver call, the answer is an error and nothing half
// made is left
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
    if (exec) cuGraphExecDestroy(exec);
    if (graph) cuGraphDestroy(graph);
    return code;
  });
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuStreamDestroy(stream));
}

}  // namespace
