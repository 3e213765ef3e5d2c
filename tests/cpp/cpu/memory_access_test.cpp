// SPDX-License-Identifier: Apache-2.0
// Queued work on memory that is freed before it runs: an error with a report, never a crash.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "support.hpp"

extern "C" const char* cucoreGetLastFaultReport(void);

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;
constexpr std::size_t kHostBytes = std::size_t{1} << 16;

class FreedMemory : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuMemAlloc(&device_, kHostBytes));
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    flag_ = words(1);
    host_ = static_cast<char*>(
        mmap(nullptr, kHostBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(MAP_FAILED, host_);
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle memory = 0;
    ASSERT_OK(cuMemCreate(&memory, kUnit, &prop, 0));
    ASSERT_OK(cuMemAddressReserve(&mapped_, kUnit, 0, 0, 0));
    ASSERT_OK(cuMemMap(mapped_, kUnit, 0, memory, 0));
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_OK(cuMemSetAccess(mapped_, kUnit, &access, 1));
    ASSERT_OK(cuMemRelease(memory));
    ASSERT_OK(cuMemsetD8(mapped_, 1, kUnit));
  }
  void TearDown() override {
    DriverTest::TearDown();
    if (is_mapped_) {
      EXPECT_OK(cuMemUnmap(mapped_, kUnit));
    }
    EXPECT_OK(cuMemAddressFree(mapped_, kUnit));
    munmap(host_, kHostBytes);
  }

  /// Work queued from here on waits for go_on().
  void hold() { ASSERT_OK(launch(kernel("spin"), 1, stream_, flag_)); }
  CUresult go_on() {
    std::atomic_ref<unsigned>{*flag_}.store(1);
    return cuStreamSynchronize(stream_);
  }
  void register_host() { ASSERT_OK(cuMemHostRegister(host_, kHostBytes, 0)); }
  /// Makes the memory inaccessible without releasing the addresses, which munmap() would.
  void lose_host() { ASSERT_EQ(0, mprotect(host_, kHostBytes, PROT_NONE)); }
  /// Frees with no current context, as a garbage collector does: the free does not wait.
  void lose_mapping() {
    CUcontext mine = nullptr;
    ASSERT_OK(cuCtxPopCurrent(&mine));
    EXPECT_OK(cuMemUnmap(mapped_, kUnit));
    is_mapped_ = false;
    ASSERT_OK(cuCtxPushCurrent(mine));
  }
  /// Expects the context's error and its report, as after an illegal access of a kernel.
  void expect_fault(CUresult result, const std::string& work) {
    EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result);
    EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD8(device_, 0, 1));
    const std::string report = cucoreGetLastFaultReport();
    EXPECT_EQ(0u, report.find(work)) << report;
    EXPECT_NE(std::string::npos, report.find("illegal memory access at 0x")) << report;
  }
  static std::string hex(const void* p) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address_of(p)));
    return text;
  }
  static CUdeviceptr address_of(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

  CUdeviceptr device_ = 0, mapped_ = 0;
  CUstream stream_ = nullptr;
  unsigned* flag_ = nullptr;
  char* host_ = nullptr;
  bool is_mapped_ = true;
};

// promise: A copy or fill of freed memory is a CUDA error with a report
TEST_F(FreedMemory, QueuedCopyFromFreedMemoryFails) {
  hold();
  ASSERT_OK(cuMemcpyDtoDAsync(device_, mapped_, 4096, stream_));
  lose_mapping();
  expect_fault(go_on(), "copy of 4096 bytes from ");
  EXPECT_NE(std::string::npos, std::string{cucoreGetLastFaultReport()}.find("has been freed"));
}

TEST_F(FreedMemory, QueuedCopyToFreedMemoryFails) {
  hold();
  ASSERT_OK(cuMemcpyDtoDAsync(mapped_, device_, 4096, stream_));
  lose_mapping();
  expect_fault(go_on(), "copy of 4096 bytes from ");
}

// promise: A copy or fill of freed memory is a CUDA error with a report
TEST_F(FreedMemory, QueuedFillFails) {
  hold();
  ASSERT_OK(cuMemsetD32Async(mapped_, 7, 1024, stream_));
  lose_mapping();
  expect_fault(go_on(), "fill of 4096 bytes at ");
}

TEST_F(FreedMemory, QueuedFillOfRowsFails) {
  hold();
  ASSERT_OK(cuMemsetD2D16Async(mapped_, 512, 7, 64, 8, stream_));
  lose_mapping();
  expect_fault(go_on(), "fill of 8 rows of 128 bytes at ");
}

TEST_F(FreedMemory, QueuedBoxCopyFails) {
  hold();
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = mapped_;
  p.dstDevice = device_;
  p.srcPitch = p.dstPitch = 128;
  p.srcHeight = p.dstHeight = 4;
  p.WidthInBytes = 64;
  p.Height = 3;
  p.Depth = 2;
  ASSERT_OK(cuMemcpy3DAsync(&p, stream_));
  lose_mapping();
  expect_fault(go_on(), "copy of 2 slices of 3 rows of 64 bytes from ");
}

TEST_F(FreedMemory, CopyIntoAnArrayFails) {
  CUDA_ARRAY_DESCRIPTOR desc{16, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  CUarray array = nullptr;
  ASSERT_OK(cuArrayCreate(&array, &desc));
  lose_host();
  expect_fault(cuMemcpyHtoA(array, 0, host_, 64), "copy of 64 bytes from " + hex(host_));
}

TEST_F(FreedMemory, BatchOfCopiesFails) {
  hold();
  CUdeviceptr to[] = {device_, device_ + 64}, from[] = {device_ + 128, mapped_};
  std::size_t sizes[] = {64, 64}, first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  ASSERT_OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream_));
  lose_mapping();
  expect_fault(go_on(), "copy of 64 bytes from ");
}

TEST_F(FreedMemory, CopyNodeOfAGraphFails) {
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuMemcpyDtoDAsync(device_, mapped_, 4096, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  lose_mapping();
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  expect_fault(cuStreamSynchronize(stream_), "copy of 4096 bytes from ");
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(FreedMemory, QueuedCopyFromUnmappedHostMemoryFails) {
  register_host();
  hold();
  ASSERT_OK(cuMemcpyHtoDAsync(device_, host_, 4096, stream_));
  lose_host();
  expect_fault(go_on(), "copy of 4096 bytes from ");
}

TEST_F(FreedMemory, StreamWriteFails) {
  hold();
  ASSERT_OK(cuStreamWriteValue32(stream_, mapped_, 5, 0));
  lose_mapping();
  expect_fault(go_on(), "a stream's write to 0x");
}

TEST_F(FreedMemory, QueuedValueWaitFails) {
  hold();
  ASSERT_OK(cuStreamWaitValue64(stream_, mapped_, 5, CU_STREAM_WAIT_VALUE_EQ));
  lose_mapping();
  expect_fault(go_on(), "a stream's wait for a value at 0x");
}

TEST_F(FreedMemory, RunningValueWaitFails) {
  ASSERT_OK(cuMemsetD8(mapped_, 0, 64));
  ASSERT_OK(cuStreamWriteValue32(stream_, address(flag_), 1, 0));
  ASSERT_OK(cuStreamWaitValue32(stream_, mapped_, 5, CU_STREAM_WAIT_VALUE_EQ));
  // The write before the wait is complete: the poller reads the word.
  while (std::atomic_ref<unsigned>{*flag_}.load() == 0) std::this_thread::yield();
  lose_mapping();
  expect_fault(cuStreamSynchronize(stream_), "a stream's wait for a value at 0x");
}

TEST_F(FreedMemory, DecompressionFails) {
  // Snappy: five literal bytes.
  const unsigned char packed[] = {5, 16, 'h', 'e', 'l', 'l', 'o'};
  ASSERT_OK(cuMemcpyHtoD(mapped_, packed, sizeof packed));
  CUmemDecompressParams job{};
  job.src = reinterpret_cast<const void*>(mapped_);
  job.srcNumBytes = sizeof packed;
  job.dst = reinterpret_cast<void*>(device_);
  job.dstNumBytes = 64;
  job.algo = CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY;
  hold();
  ASSERT_OK(cuMemBatchDecompressAsync(&job, 1, 0, nullptr, stream_));
  lose_mapping();
  expect_fault(go_on(), "batch decompression");
}

TEST_F(FreedMemory, SemaphoreWaitOnTruncatedFileFails) {
  const int fd = memfd_create("counter", 0);
  ASSERT_EQ(0, ftruncate(fd, 4096));
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc{};
  desc.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
  desc.handle.fd = dup(fd);
  CUexternalSemaphore semaphore = nullptr;
  ASSERT_OK(cuImportExternalSemaphore(&semaphore, &desc));
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  wait.params.fence.value = 3;
  ASSERT_OK(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream_));
  ASSERT_EQ(0, ftruncate(fd, 0));
  expect_fault(cuStreamSynchronize(stream_), "the counter of an external semaphore");
  close(fd);
}

// promise: A copy from or to unmapped host memory is a CUDA error
TEST_F(FreedMemory, SynchronousCopyReturnsTheError) {
  lose_host();
  expect_fault(cuMemcpyHtoD(device_, host_, 256), "copy of 256 bytes from " + hex(host_));
  EXPECT_NE(std::string::npos, std::string{cucoreGetLastFaultReport()}.find("host memory"));
}

TEST_F(FreedMemory, CopyToHostReturnsTheError) {
  ASSERT_EQ(0, mprotect(host_, kHostBytes, PROT_READ));  // mapped, but read-only
  expect_fault(cuMemcpyDtoH(host_, device_, 256), "copy of 256 bytes from ");
}

TEST_F(FreedMemory, StagedCopyReturnsTheError) {
  hold();
  lose_host();
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoDAsync(device_, host_, 256, stream_));
  expect_fault(go_on(), "copy of 256 bytes from " + hex(host_));
}

TEST_F(FreedMemory, CopyOnAnIdleStreamReturnsTheError) {
  lose_host();
  expect_fault(cuMemcpyHtoDAsync(device_, host_, 256, stream_), "copy of 256 bytes from ");
}

TEST_F(FreedMemory, OtherContextsAndLaterWorkAreUnaffected) {
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  CUdeviceptr word = 0;
  ASSERT_OK(cuMemAlloc(&word, 4));
  ASSERT_OK(cuCtxPopCurrent(nullptr));
  lose_host();
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoD(device_, host_, 256));
  ASSERT_OK(cuCtxPushCurrent(other));
  ASSERT_OK(cuMemsetD32(word, 3, 1));
  unsigned value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, word, 4));
  EXPECT_EQ(3u, value);
  EXPECT_OK(cuCtxDestroy(other));
}

TEST_F(FreedMemory, ThreadThatSeesTheErrorFindsItsReport) {
  register_host();
  lose_host();
  for (int round = 0; round < 200; ++round) {
    CUcontext own = nullptr;
    ASSERT_OK(cuCtxCreate(&own, nullptr, 0, 0));
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuLaunchHostFunc(
        stream, [](void*) { usleep(100); }, nullptr));
    const CUresult queued = cuMemcpyHtoDAsync(device_, host_ + round, 256, stream);
    ASSERT_TRUE(queued == CUDA_SUCCESS || queued == CUDA_ERROR_ILLEGAL_ADDRESS) << queued;
    CUresult seen = CUDA_ERROR_NOT_READY;
    while (seen == CUDA_ERROR_NOT_READY) seen = cuStreamQuery(stream);
    EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, seen);
    ASSERT_EQ(0u, std::string{cucoreGetLastFaultReport()}.find("copy of 256 bytes from " +
                                                               hex(host_ + round)))
        << "round " << round << ": " << cucoreGetLastFaultReport();
    EXPECT_OK(cuCtxDestroy(own));
  }
}

/// An illegal access of the program itself.
void poke() {
  volatile std::uintptr_t nowhere = 64;
  *reinterpret_cast<volatile char*>(nowhere) = 1;
}

using FreedMemoryDeathTest = FreedMemory;
// promise: A fault of the host program reaches the previous signal handler
TEST_F(FreedMemoryDeathTest, FaultOfTheProgramEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a forked child may not use the driver
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { std::_Exit(42); });
        usleep(30'000);  // handlers are checked again after at least 20 ms
        if (cuMemsetD8(device_, 1, 64) != CUDA_SUCCESS) std::_Exit(1);
        poke();
      },
      ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(poke(), ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
