// SPDX-License-Identifier: Apache-2.0
// CUCORE_CPU_MEMORY: all device memory counts, and an allocation above the limit fails with code 2
// without other effects. Each test runs in its own process, because the limit is read once.
#include <cstdlib>
#include <functional>
#include <string>

#include "support.hpp"

namespace {

/// Kernel of the fake engine: *p = malloc(n).
constexpr char kTake[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry take(.param .u64 n, .param .u64 p) { ret; }\n";

CUfunction take_kernel() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_OK(cuModuleLoadData(&module, kTake));
  EXPECT_OK(cuModuleGetFunction(&function, module, "take"));
  return function;
}

constexpr std::size_t kMega = std::size_t{1} << 20;
constexpr std::size_t kLimit = 64 * kMega, kTooMuch = 80 * kMega, kSome = 16 * kMega;

CUmemAllocationProp device_memory() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

CUmemPoolProps device_pool() {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return props;
}

CUDA_ARRAY3D_DESCRIPTOR array_of(std::size_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR box{};
  box.Width = 1024, box.Height = bytes / 4096, box.Format = CU_AD_FORMAT_FLOAT, box.NumChannels = 1;
  return box;
}

class MemoryLimit : public DriverTest {
 protected:
  void SetUp() override {
    NEEDS_FRESH_PROCESS();
    setenv("CUCORE_CPU_MEMORY", "64M", 1);
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemAlloc(&earlier_, 4096));
    ASSERT_OK(cuMemsetD32(earlier_, 0x5eed, 1024));
  }
  void TearDown() override {
    if (context_) DriverTest::TearDown();
  }
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo(&free, &total));
    EXPECT_EQ(kLimit, total);
    return free;
  }
  /// Expects that an oversized request fails with code 2, leaves the free memory and existing
  /// allocations unchanged, and that the next call succeeds.
  void refuses(const char* what, const std::function<CUresult()>& call) {
    SCOPED_TRACE(what);
    const std::size_t before = free_bytes();
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, call());
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(before, free_bytes());
    unsigned kept[1024];
    ASSERT_OK(cuMemcpyDtoH(kept, earlier_, sizeof kept));
    for (const unsigned value : kept) ASSERT_EQ(0x5eedu, value);
    CUdeviceptr next = 0;
    ASSERT_OK(cuMemAlloc(&next, 48 * kMega));
    EXPECT_OK(cuMemsetD32(next, 1, 16));
    EXPECT_OK(cuMemFree(next));
    EXPECT_EQ(before, free_bytes());
  }
  /// Expects that the memory of the call counts until it is freed.
  void counts(const char* what, const std::function<CUresult()>& take,
              const std::function<CUresult()>& give) {
    SCOPED_TRACE(what);
    const std::size_t before = free_bytes();
    ASSERT_OK(take());
    EXPECT_LE(free_bytes() + kSome, before);
    EXPECT_OK(give());
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(before, free_bytes());
  }

  CUstream stream_ = nullptr;
  CUdeviceptr earlier_ = 0;
  CUdeviceptr p_ = 0;
};

TEST_F(MemoryLimit, AppliesToPlainAndManagedMemory) {
  std::size_t pitch = 0;
  refuses("cuMemAlloc", [&] { return cuMemAlloc(&p_, kTooMuch); });
  refuses("cuMemAllocPitch",
          [&] { return cuMemAllocPitch(&p_, &pitch, 8192, kTooMuch / 8192, 4); });
  refuses("cuMemAllocManaged",
          [&] { return cuMemAllocManaged(&p_, kTooMuch, CU_MEM_ATTACH_GLOBAL); });
  EXPECT_EQ(0u, p_);
  const auto give = [&] { return cuMemFree(p_); };
  counts(
      "cuMemAlloc", [&] { return cuMemAlloc(&p_, kSome); }, give);
  counts(
      "cuMemAllocPitch", [&] { return cuMemAllocPitch(&p_, &pitch, 8192, kSome / 8192, 4); }, give);
  counts(
      "cuMemAllocManaged", [&] { return cuMemAllocManaged(&p_, kSome, CU_MEM_ATTACH_GLOBAL); },
      give);
}

TEST_F(MemoryLimit, AllocationOfTheWholeLimitSucceeds) {
  const std::size_t rest = free_bytes();
  CUdeviceptr none = 0;
  ASSERT_OK(cuMemAlloc(&p_, rest));
  EXPECT_EQ(0u, free_bytes());
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&none, 1));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&none, 1, stream_));
  ASSERT_OK(cuMemFree(p_));
  ASSERT_OK(cuMemAlloc(&none, 1));
  ASSERT_OK(cuMemFree(none));
  EXPECT_EQ(rest, free_bytes());
}

TEST_F(MemoryLimit, AppliesToPools) {
  CUmemPoolProps props[3] = {device_pool(), device_pool(), device_pool()};
  props[1].handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  props[2].allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  const char* names[] = {"a pool", "a pool that can be exported", "a pool of managed memory"};
  refuses("cuMemAllocAsync", [&] { return cuMemAllocAsync(&p_, kTooMuch, stream_); });
  const auto give = [&] { return cuMemFreeAsync(p_, stream_); };
  counts(
      "cuMemAllocAsync", [&] { return cuMemAllocAsync(&p_, kSome, stream_); }, give);
  for (int i = 0; i < 3; ++i) {
    CUmemoryPool pool = nullptr;
    ASSERT_OK(cuMemPoolCreate(&pool, &props[i]));
    refuses(names[i], [&] { return cuMemAllocFromPoolAsync(&p_, kTooMuch, pool, stream_); });
    counts(
        names[i], [&] { return cuMemAllocFromPoolAsync(&p_, kSome, pool, stream_); }, give);
    ASSERT_OK(cuMemPoolDestroy(pool));
  }
}

TEST_F(MemoryLimit, AppliesToPhysicalMemory) {
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle memory = 0;
  refuses("cuMemCreate", [&] { return cuMemCreate(&memory, kTooMuch, &prop, 0); });
  counts(
      "cuMemCreate", [&] { return cuMemCreate(&memory, kSome, &prop, 0); },
      [&] { return cuMemRelease(memory); });
}

TEST_F(MemoryLimit, PhysicalMemoryIsFreedWithLastHandleAndMapping) {
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle memory = 0, again = 0;
  CUdeviceptr range = 0;
  const std::size_t before = free_bytes();
  ASSERT_OK(cuMemAddressReserve(&range, kSome, 0, 0, 0));
  EXPECT_EQ(before, free_bytes());  // reserved addresses use no memory
  ASSERT_OK(cuMemCreate(&memory, kSome, &prop, 0));
  ASSERT_OK(cuMemMap(range, kSome, 0, memory, 0));
  EXPECT_EQ(before - kSome, free_bytes());
  ASSERT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + 5)));
  EXPECT_EQ(memory, again);
  ASSERT_OK(cuMemRelease(memory));
  ASSERT_OK(cuMemUnmap(range, kSome));
  EXPECT_EQ(before - kSome, free_bytes());  // one handle is left
  ASSERT_OK(cuMemMap(range, kSome, 0, again, 0));
  ASSERT_OK(cuMemRelease(again));
  EXPECT_EQ(before - kSome, free_bytes());  // the mapping is left
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemRelease(again));
  CUmemAllocationProp read{};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&read, again));
  ASSERT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)));
  EXPECT_EQ(memory, again);  // the memory has one handle for its lifetime
  ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&read, again));
  ASSERT_OK(cuMemUnmap(range, kSome));
  ASSERT_OK(cuMemRelease(again));
  EXPECT_EQ(before, free_bytes());
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemRelease(again));
  ASSERT_OK(cuMemAddressFree(range, kSome));
}

TEST_F(MemoryLimit, AppliesToArraysAndMipmaps) {
  const CUDA_ARRAY3D_DESCRIPTOR large = array_of(kTooMuch), some = array_of(kSome);
  const CUDA_ARRAY_DESCRIPTOR flat_large{large.Width, large.Height, large.Format, 1};
  const CUDA_ARRAY_DESCRIPTOR flat_some{some.Width, some.Height, some.Format, 1};
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  refuses("cuArrayCreate", [&] { return cuArrayCreate(&array, &flat_large); });
  refuses("cuArray3DCreate", [&] { return cuArray3DCreate(&array, &large); });
  refuses("cuMipmappedArrayCreate", [&] { return cuMipmappedArrayCreate(&mipmap, &large, 4); });
  CUDA_ARRAY3D_DESCRIPTOR layers = array_of(kTooMuch / 4);
  layers.Depth = 4, layers.Flags = CUDA_ARRAY3D_LAYERED;
  refuses("a layered array", [&] { return cuArray3DCreate(&array, &layers); });
  layers.Flags = 0;
  refuses("a box", [&] { return cuArray3DCreate(&array, &layers); });
  const auto give = [&] { return cuArrayDestroy(array); };
  counts(
      "cuArrayCreate", [&] { return cuArrayCreate(&array, &flat_some); }, give);
  counts(
      "cuArray3DCreate", [&] { return cuArray3DCreate(&array, &some); }, give);
  counts(
      "cuMipmappedArrayCreate", [&] { return cuMipmappedArrayCreate(&mipmap, &some, 4); },
      [&] { return cuMipmappedArrayDestroy(mipmap); });
}

TEST_F(MemoryLimit, AppliesToGraphMemory) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  alloc.poolProps = device_pool();
  alloc.bytesize = kTooMuch;
  CUgraphNodeParams any{};
  any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  any.alloc.poolProps = device_pool();
  any.alloc.bytesize = kTooMuch;
  refuses("cuGraphAddMemAllocNode",
          [&] { return cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc); });
  refuses("cuGraphAddNode",
          [&] { return cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any); });
  std::size_t count = 9;
  ASSERT_OK(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(0u, count);  // nothing was added
  alloc.bytesize = kSome;
  counts(
      "cuGraphAddMemAllocNode",
      [&] { return cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc); },
      [&] { return cuGraphDestroy(graph); });
}

TEST_F(MemoryLimit, AppliesToCapturedAllocations) {
  CUgraph graph = nullptr;
  const std::size_t before = free_bytes();
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p_, kTooMuch, stream_));
  ASSERT_OK(cuMemAllocAsync(&p_, kSome, stream_));  // the capture is still valid
  ASSERT_OK(cuMemFreeAsync(p_, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  EXPECT_EQ(before - kSome, free_bytes());
  std::size_t count = 0;
  ASSERT_OK(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(2u, count);
  ASSERT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(before, free_bytes());
}

TEST_F(MemoryLimit, AppliesToModuleVariables) {
  const auto text = [](std::size_t words) {
    return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .u32 table[" +
           std::to_string(words) + "];\n";
  };
  const std::string large = text(kTooMuch / 4), some = text(kSome / 4);
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  refuses("cuModuleLoadData", [&] { return cuModuleLoadData(&module, large.c_str()); });
  refuses("cuLibraryLoadData", [&] {
    std::size_t bytes = 0;
    if (const CUresult code =
            cuLibraryLoadData(&library, large.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0))
      return code;
    const CUresult code = cuLibraryGetGlobal(&p_, &bytes, library, "table");
    EXPECT_OK(cuLibraryUnload(library));
    return code;
  });
  counts(
      "cuModuleLoadData", [&] { return cuModuleLoadData(&module, some.c_str()); },
      [&] { return cuModuleUnload(module); });
}

TEST_F(MemoryLimit, AppliesToMallocInKernels) {
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 * kLimit));
  CUdeviceptr answer = 0;
  ASSERT_OK(cuMemAllocManaged(&answer, 8, CU_MEM_ATTACH_GLOBAL));
  const auto& got = *reinterpret_cast<std::uint64_t*>(answer);
  const CUfunction take = take_kernel();
  const std::size_t before = free_bytes();
  ASSERT_OK(launch(take, 1, stream_, std::uint64_t{kTooMuch}, answer));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(0u, got);  // null, without a fault
  EXPECT_EQ(before, free_bytes());
  ASSERT_OK(launch(take, 1, stream_, std::uint64_t{kSome}, answer));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_NE(0u, got);
  EXPECT_EQ(before - kSome, free_bytes());
  // Memory that kernels did not free is freed with the context.
  CUcontext left = nullptr;
  ASSERT_OK(cuCtxPopCurrent(&left));
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  ASSERT_OK(cuCtxDestroy(left));
  EXPECT_EQ(kLimit, free_bytes());
  context_ = other;
}

TEST_F(MemoryLimit, ExcludesHostMemory) {
  const std::size_t before = free_bytes();
  void* host = nullptr;
  ASSERT_OK(cuMemAllocHost(&host, kTooMuch));
  ASSERT_OK(cuMemFreeHost(host));
  ASSERT_OK(cuMemHostAlloc(&host, kTooMuch, CU_MEMHOSTALLOC_PORTABLE));
  ASSERT_OK(cuMemFreeHost(host));
  CUmemPoolProps props = device_pool();
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &props));
  ASSERT_OK(cuMemAllocFromPoolAsync(&p_, kTooMuch, pool, stream_));
  EXPECT_EQ(before, free_bytes());
  ASSERT_OK(cuMemFreeAsync(p_, stream_));
  ASSERT_OK(cuMemPoolDestroy(pool));
  // More than any machine has; the result is the same.
  refuses("cuMemAllocHost", [&] { return cuMemAllocHost(&host, std::size_t{1} << 60); });
  refuses("cuMemHostAlloc", [&] { return cuMemHostAlloc(&host, std::size_t{1} << 60, 0); });
}

class KernelHeap : public DriverTest {};

TEST_F(KernelHeap, ContextLimitIsEnforced) {
  CUdeviceptr answer = 0;
  ASSERT_OK(cuMemAllocManaged(&answer, 8, CU_MEM_ATTACH_GLOBAL));
  const auto& got = *reinterpret_cast<std::uint64_t*>(answer);
  const CUfunction take = take_kernel();
  const auto malloc_in_kernel = [&](std::uint64_t bytes) {
    EXPECT_OK(launch(take, 1, nullptr, bytes, answer));
    EXPECT_OK(cuCtxSynchronize());
    return got;
  };
  std::size_t limit = 0;
  ASSERT_OK(cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
  EXPECT_EQ(8 * kMega, limit);
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * kMega));
  EXPECT_NE(0u, malloc_in_kernel(20 * kMega));
  EXPECT_EQ(0u, malloc_in_kernel(20 * kMega));
  EXPECT_NE(0u, malloc_in_kernel(12 * kMega));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * kMega));
}

}  // namespace
