// SPDX-License-Identifier: Apache-2.0
// Memory pools: stream order, reuse and counters.
#include <atomic>
#include <ctime>
#include <string>
#include <thread>

#include "support.hpp"

namespace {

class Pools : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&a_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&b_, CU_STREAM_NON_BLOCKING));
    pool_ = new_pool();
  }
  CUmemoryPool new_pool(std::size_t most = 0) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = 0;
    props.maxSize = most;
    CUmemoryPool pool = nullptr;
    EXPECT_OK(cuMemPoolCreate(&pool, &props));
    return pool;
  }
  std::uint64_t attribute(CUmemPool_attribute id) {
    std::uint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool_, id, &value));
    return value;
  }
  CUstream a_ = nullptr, b_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(Pools, SameStreamReusesFreedBlock) {
  unsigned* flag = words(1);
  CUdeviceptr p = 0, q = 0, r = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 1000, pool_, a_));
  ASSERT_OK(launch(kernel("spin"), 1, a_, flag));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemAllocFromPoolAsync(&q, 1000, pool_, a_));
  EXPECT_EQ(p, q);
  ASSERT_OK(cuMemFreeAsync(q, a_));
  int off = 0;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
  ASSERT_OK(cuMemAllocFromPoolAsync(&r, 1000, pool_, b_));
  EXPECT_NE(p, r);  // the free in the other stream is not complete
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuMemFreeAsync(r, b_));
}

TEST_F(Pools, AnotherStreamWaitsForTheFreeAtTheLimit) {
  constexpr std::size_t kBytes = 1 << 20;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.maxSize = kBytes;
  CUmemoryPool small = nullptr;
  ASSERT_OK(cuMemPoolCreate(&small, &props));
  unsigned* flag = words(1);
  CUdeviceptr p = 0, q = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, kBytes, small, a_));
  ASSERT_OK(launch(kernel("spin"), 1, a_, flag));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemAllocFromPoolAsync(&q, kBytes, small, b_));
  EXPECT_EQ(p, q);
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(b_));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(b_));
  ASSERT_OK(cuMemFreeAsync(q, b_));
  ASSERT_OK(cuMemPoolDestroy(small));
}

// The work of the other stream may wait for this program.
TEST_F(Pools, AnotherStreamDoesNotWaitBelowTheLimit) {
  unsigned* flag = words(1);
  CUdeviceptr p = 0, q = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 1000, pool_, a_));
  ASSERT_OK(launch(kernel("spin"), 1, a_, flag));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemAllocFromPoolAsync(&q, 1000, pool_, b_));
  EXPECT_NE(p, q);
  ASSERT_OK(cuStreamSynchronize(b_));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(a_));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuMemFreeAsync(q, b_));
}

TEST_F(Pools, StreamThatWaitsForTheFreeReusesTheBlock) {
  const auto set = [&](CUmemPool_attribute attribute, int value) {
    ASSERT_OK(cuMemPoolSetAttribute(pool_, attribute, &value));
  };
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  unsigned* flag = words(1);
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr p = 0, early = 0, q = 0, r = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 1000, pool_, a_));
  ASSERT_OK(launch(kernel("spin"), 1, a_, flag));
  ASSERT_OK(cuEventRecord(event, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event, 0));
  ASSERT_OK(launch(kernel("noop"), 1, a_));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemAllocFromPoolAsync(&early, 1000, pool_, b_));
  EXPECT_NE(p, early);  // b_ waits for earlier work only
  ASSERT_OK(cuEventRecord(event, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event, 0));
  ASSERT_OK(cuMemAllocFromPoolAsync(&q, 1000, pool_, b_));
  EXPECT_EQ(p, q);  // b_ waits for the work of a_ at the free
  ASSERT_OK(cuMemFreeAsync(q, b_));
  set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
  CUstream c = nullptr;
  ASSERT_OK(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventRecord(event, b_));
  ASSERT_OK(cuStreamWaitEvent(c, event, 0));
  ASSERT_OK(cuMemAllocFromPoolAsync(&r, 1000, pool_, c));
  EXPECT_NE(p, r);  // the attribute forbids reuse through events
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(c));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(c));
  ASSERT_OK(cuMemFreeAsync(early, b_));
  ASSERT_OK(cuMemFreeAsync(r, c));
  ASSERT_OK(cuStreamDestroy(c));
  ASSERT_OK(cuEventDestroy(event));
}

TEST_F(Pools, UsageAttributesAreCounted) {
  std::uint64_t keep = UINT64_MAX;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool_, a_));
  EXPECT_EQ(1u << 20, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  CUmemoryPool found = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  EXPECT_EQ(pool_, found);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(0u, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  EXPECT_EQ(1u << 20, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  ASSERT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(0u, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_EQ(1u << 20, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
  keep = 0;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool_, a_));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuStreamSynchronize(a_));  // a wait frees memory above the threshold
  EXPECT_EQ(0u, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

TEST_F(Pools, DefaultPoolBelongsToTheDevice) {
  CUmemoryPool standard = nullptr, current = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
  ASSERT_OK(cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(standard, current);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
  ASSERT_OK(cuDeviceSetMemPool(0, pool_));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 100, nullptr));
  CUmemoryPool found = nullptr;
  ASSERT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  EXPECT_EQ(pool_, found);
  ASSERT_OK(cuMemPoolDestroy(pool_));  // its memory exists until freed
  ASSERT_OK(cuMemsetD8(p, 1, 100));
  ASSERT_OK(cuMemFreeAsync(p, nullptr));
  ASSERT_OK(cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(standard, current);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool_, 0));
}

TEST_F(Pools, UnusedPoolMemoryServesOtherAllocations) {  // as on an H200
  std::uint64_t all = ~std::uint64_t{0};
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  const std::size_t much = free / 4 * 3;
  CUdeviceptr p = 0, q = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, much, pool_, a_));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, much)) << "the pool's is in use";
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_OK(cuMemAlloc(&q, much));
  EXPECT_OK(cuMemFree(q));
}

/// Several threads and streams: blocks in use never overlap, and the limits hold.
TEST_F(Pools, ConcurrentAllocationsStayWithinTheLimit) {
  constexpr unsigned kThreads = 4, kRounds = 300;
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kMost = 3 * kThreads * kBlock;
  const CUmemoryPool pool = new_pool(kMost);
  const CUfunction store = kernel("store");
  unsigned* seen = words(kThreads);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      CUstream streams[2] = {};
      CUevent event = nullptr;
      bool fine = cuCtxSetCurrent(context_) == CUDA_SUCCESS &&
                  cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                  cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                  cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
      for (unsigned i = 0; fine && i < kRounds; ++i) {
        const CUstream first = streams[i % 2], second = streams[(i + 1) % 2];
        CUdeviceptr p = 0;
        const unsigned value = t * kRounds + i + 1;
        fine = cuMemAllocFromPoolAsync(&p, kBlock, pool, first) == CUDA_SUCCESS &&
               launch(store, 1, first, p, value) == CUDA_SUCCESS &&
               cuEventRecord(event, first) == CUDA_SUCCESS &&
               cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS &&
               cuMemcpyAsync(address(&seen[t]), p, 4, second) == CUDA_SUCCESS &&
               cuMemFreeAsync(p, second) == CUDA_SUCCESS;
        if (i % 16 != 15) continue;
        fine = fine && cuStreamSynchronize(second) == CUDA_SUCCESS && seen[t] == value;
      }
      wrong += !fine;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0u, wrong);
  std::uint64_t most = 0;
  ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &most));
  EXPECT_LE(most, kThreads * kBlock) << "a thread has one block at a time";
  ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &most));
  EXPECT_LE(most, kMost);
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuMemPoolDestroy(pool));
}

TEST_F(Pools, UnusedBlocksAreFreedForOtherSizes) {
  constexpr std::size_t kMost = 1 << 20;
  ASSERT_OK(cuMemPoolDestroy(pool_));
  pool_ = new_pool(kMost);
  cuuint64_t keep = ~cuuint64_t{0};
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  for (std::size_t bytes = kMost; bytes >= 1 << 12; bytes /= 2) {
    CUdeviceptr p = 0;
    ASSERT_OK(cuMemAllocFromPoolAsync(&p, bytes, pool_, a_));
    ASSERT_OK(cuMemFreeAsync(p, a_));
    ASSERT_OK(cuStreamSynchronize(a_));
  }
  EXPECT_LE(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), kMost);
}

/// Ratio of processor time, alternating: free blocks in a pool do not slow it down.
TEST_F(Pools, AllocationTimeIsIndependentOfFreeBlocks) {
  constexpr int kHeld = 4000, kRounds = 400;
  cuuint64_t keep = ~cuuint64_t{0};
  const CUmemoryPool full = new_pool();
  for (const CUmemoryPool pool : {pool_, full})
    ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  std::vector<CUdeviceptr> held(kHeld);
  for (CUdeviceptr& p : held) ASSERT_OK(cuMemAllocFromPoolAsync(&p, 4096, full, a_));
  for (const CUdeviceptr p : held) ASSERT_OK(cuMemFreeAsync(p, a_));
  const auto cost = [&](CUmemoryPool pool) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < 20; ++i) {
      CUdeviceptr p = 0;
      EXPECT_OK(cuMemAllocFromPoolAsync(&p, 4096, pool, a_));
      EXPECT_OK(cuMemFreeAsync(p, a_));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
           static_cast<double>(end.tv_nsec - begin.tv_nsec);
  };
  double few = 0, many = 0;
  for (int round = 0; round < kRounds; ++round) few += cost(pool_), many += cost(full);
  RecordProperty("ratio", std::to_string(many / few));
  EXPECT_LT(many, 3 * few);
}

TEST_F(Pools, OversizedAllocationFailsWithOutOfMemory) {
  CUdeviceptr p = 0;
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&p, total * 2, pool_, a_));
  EXPECT_OK(cuMemAllocFromPoolAsync(&p, 0, pool_,
                                    a_));  // as on an H200: a null pointer, which can be freed
  EXPECT_EQ(0u, p);
  EXPECT_OK(cuMemFreeAsync(p, a_));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(12345, a_));
}

}  // namespace
