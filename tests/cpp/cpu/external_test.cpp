// SPDX-License-Identifier: Apache-2.0
// Imported memory and semaphores.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "support.hpp"

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;

class External : public DriverTest {
 protected:
  static CUDA_EXTERNAL_MEMORY_HANDLE_DESC describe(int fd, std::size_t size) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc{};
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    desc.handle.fd = fd;
    desc.size = size;
    return desc;
  }
  static CUexternalSemaphore import(CUexternalSemaphoreHandleType type, int fd) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc{};
    desc.type = type;
    desc.handle.fd = fd;
    CUexternalSemaphore semaphore = nullptr;
    EXPECT_OK(cuImportExternalSemaphore(&semaphore, &desc));
    return semaphore;
  }
};

TEST_F(External, ImportedMemorySharesTheExportersBytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0;
  ASSERT_OK(cuMemCreate(&memory, kUnit, &prop, 0));
  CUdeviceptr range = 0;
  ASSERT_OK(cuMemAddressReserve(&range, kUnit, 0, 0, 0));
  ASSERT_OK(cuMemMap(range, kUnit, 0, memory, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_OK(cuMemSetAccess(range, kUnit, &access, 1));
  int fd = -1;
  ASSERT_OK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  auto desc = describe(fd, 2 * kUnit);
  CUexternalMemory external = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuImportExternalMemory(&external, &desc));  // longer than the file
  desc.size = kUnit;
  ASSERT_OK(cuImportExternalMemory(&external, &desc));
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC part{};
  part.offset = 4100;
  part.size = 256;
  CUdeviceptr buffer = 0;
  ASSERT_OK(cuExternalMemoryGetMappedBuffer(&buffer, external, &part));
  part.offset = kUnit;
  CUdeviceptr outside = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&outside, external, &part));
  ASSERT_OK(cuDestroyExternalMemory(external));  // the mapping stays
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuDestroyExternalMemory(external));
  ASSERT_OK(cuMemsetD32(buffer, 77, 64));
  unsigned value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, range + 4100 + 252, 4));
  EXPECT_EQ(77u, value);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(buffer, 0, 65));
  ASSERT_OK(cuMemFree(buffer));
  ASSERT_OK(cuMemUnmap(range, kUnit));
  ASSERT_OK(cuMemAddressFree(range, kUnit));
  ASSERT_OK(cuMemRelease(memory));
}

TEST_F(External, ImportedMemoryBacksMipmappedArrays) {
  const int fd = memfd_create("picture", MFD_CLOEXEC);
  ASSERT_EQ(0, ftruncate(fd, 1 << 20));
  const auto desc = describe(fd, 1 << 20);
  CUexternalMemory external = nullptr;
  ASSERT_OK(cuImportExternalMemory(&external, &desc));
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC wanted{};
  wanted.arrayDesc.Width = wanted.arrayDesc.Height = 64;
  wanted.arrayDesc.Format = CU_AD_FORMAT_FLOAT;
  wanted.arrayDesc.NumChannels = 1;
  wanted.numLevels = 3;
  CUmipmappedArray mipmap = nullptr;
  ASSERT_OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, external, &wanted));
  CUarray base = nullptr;
  ASSERT_OK(cuMipmappedArrayGetLevel(&base, mipmap, 0));
  const float first = 2.5f;
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = &first;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = base;
  copy.WidthInBytes = sizeof first;
  copy.Height = 1;
  ASSERT_OK(cuMemcpy2D(&copy));
  float found = 0;
  ASSERT_EQ(static_cast<ssize_t>(sizeof found), pread(fd, &found, sizeof found, 0));
  EXPECT_EQ(first, found);
  wanted.arrayDesc.Width = wanted.arrayDesc.Height = 1024;
  CUmipmappedArray larger = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuExternalMemoryGetMappedMipmappedArray(&larger, external, &wanted));
  ASSERT_OK(cuMipmappedArrayDestroy(mipmap));
  ASSERT_OK(cuDestroyExternalMemory(external));
}

TEST_F(External, UnsupportedHandleTypesFail) {
  auto desc = describe(0, 4096);
  desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
  CUexternalMemory memory = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, &desc));
  desc.type = static_cast<CUexternalMemoryHandleType>(99);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuImportExternalMemory(&memory, &desc));
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC semaphore{};
  semaphore.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC;
  CUexternalSemaphore made = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalSemaphore(&made, &semaphore));
  semaphore.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
  semaphore.handle.fd = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuImportExternalSemaphore(&made, &semaphore));
}

TEST_F(External, StreamWaitsForBinarySemaphore) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  const int own = dup(fd);  // the import owns the descriptor
  const CUexternalSemaphore semaphore = import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, fd);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  unsigned* word = words(1);
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  ASSERT_OK(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream));
  ASSERT_OK(launch(kernel("store"), 1, stream, address(word), 4u));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  const std::uint64_t one = 1;
  ASSERT_EQ(static_cast<ssize_t>(sizeof one), write(own, &one, sizeof one));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(4u, *word);
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  ASSERT_OK(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  std::uint64_t seen = 0;
  ASSERT_EQ(static_cast<ssize_t>(sizeof seen), read(own, &seen, sizeof seen));
  EXPECT_EQ(1u, seen);
  ASSERT_OK(cuDestroyExternalSemaphore(semaphore));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, stream));
  close(own);
}

TEST_F(External, GraphSignalsAndWaitsForTimelineSemaphore) {
  const int fd = memfd_create("timeline", MFD_CLOEXEC);
  ASSERT_EQ(0, ftruncate(fd, 4096));
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto& counter = *static_cast<std::atomic<unsigned long long>*>(page);
  CUexternalSemaphore semaphore =
      import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, fd);
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  wait.params.fence.value = 5;
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  signal.params.fence.value = 6;
  const CUDA_EXT_SEM_WAIT_NODE_PARAMS waits{&semaphore, &wait, 1};
  CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals{&semaphore, &signal, 1};
  CUgraphNode first = nullptr, second = nullptr;
  ASSERT_OK(cuGraphAddExternalSemaphoresWaitNode(&first, graph, nullptr, 0, &waits));
  ASSERT_OK(cuGraphAddExternalSemaphoresSignalNode(&second, graph, &first, 1, &signals));
  CUDA_EXT_SEM_WAIT_NODE_PARAMS read_wait{};
  ASSERT_OK(cuGraphExternalSemaphoresWaitNodeGetParams(first, &read_wait));
  EXPECT_EQ(5u, read_wait.paramsArray[0].params.fence.value);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  counter = 5;
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(6u, counter.load());
  signal.params.fence.value = 9;
  ASSERT_OK(cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, second, &signals));
  ASSERT_OK(cuGraphExecExternalSemaphoresWaitNodeSetParams(exec, first, &waits));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuGraphExecExternalSemaphoresWaitNodeSetParams(exec, second, &waits));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(9u, counter.load());
  ASSERT_OK(cuGraphExternalSemaphoresSignalNodeSetParams(second, &signals));
  CUDA_EXT_SEM_SIGNAL_NODE_PARAMS read_signal{};
  ASSERT_OK(cuGraphExternalSemaphoresSignalNodeGetParams(second, &read_signal));
  EXPECT_EQ(9u, read_signal.paramsArray[0].params.fence.value);
  ASSERT_OK(cuGraphExternalSemaphoresWaitNodeSetParams(first, &waits));
  CUgraphNodeParams described{};
  ASSERT_OK(cuGraphNodeGetParams(first, &described));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, described.type);
  EXPECT_EQ(1u, described.extSemWait.numExtSems);
  ASSERT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_OK(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream, &captured));
  std::size_t count = 0;
  ASSERT_OK(cuGraphGetNodes(captured, nullptr, &count));
  EXPECT_EQ(1u, count);
  munmap(page, 4096);
}

}  // namespace
