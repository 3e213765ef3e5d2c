// SPDX-License-Identifier: Apache-2.0
// The k-th allocation fails, by family of calls: contexts, pools, mapped memory, arrays and
// textures, libraries and links, graph nodes, stream memory operations, exported and imported
// handles.
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "injection.hpp"

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, Contexts) {
  each_allocation([] {
    CUcontext context = nullptr, primary = nullptr;
    TRY(cuCtxCreate(&context, nullptr, 0, 0));
    CUresult code = cuCtxPushCurrent(context);
    if (code == CUDA_SUCCESS) {
      CUdeviceptr memory = 0;
      code = cuMemAlloc(&memory, 64);
      if (code == CUDA_SUCCESS) code = cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048);
      CUcontext popped = nullptr;
      cuCtxPopCurrent(&popped);
    }
    const CUresult retained =
        code == CUDA_SUCCESS ? cuDevicePrimaryCtxRetain(&primary, 0) : CUDA_ERROR_UNKNOWN;
    if (code == CUDA_SUCCESS) code = retained;
    const Enough enough;
    if (retained == CUDA_SUCCESS) {
      EXPECT_OK(cuDevicePrimaryCtxRelease(0));
    }
    EXPECT_OK(cuCtxDestroy(context));
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, Pools) {
  const auto share = [] {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool = nullptr, other = nullptr;
    TRY(cuMemPoolCreate(&pool, &props));
    CUdeviceptr a = 0, b = 0, seen = 0;
    int fd = -1;
    CUmemPoolPtrExportData data{};
    CUresult code = cuMemAllocFromPoolAsync(&a, 4096, pool, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemAllocFromPoolAsync(&b, 1 << 20, pool, nullptr);
    if (code == CUDA_SUCCESS) code = cuMemPoolExportPointer(&data, a);
    if (code == CUDA_SUCCESS)
      code =
          cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (code == CUDA_SUCCESS)
      code = cuMemPoolImportFromShareableHandle(
          &other, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (code == CUDA_SUCCESS) code = cuMemPoolImportPointer(&seen, other, &data);
    if (code == CUDA_SUCCESS) {
      code = cuMemFreeAsync(b, nullptr);
      if (code == CUDA_SUCCESS) b = 0;
    }
    if (code == CUDA_SUCCESS) code = cuMemPoolTrimTo(pool, 0);
    const Enough enough;
    if (fd >= 0) close(fd);
    for (const CUdeviceptr left : {a, b, seen})
      if (left) cuMemFreeAsync(left, nullptr);
    if (other) {
      EXPECT_OK(cuMemPoolDestroy(other));
    }
    EXPECT_OK(cuMemPoolDestroy(pool));
    return code;
  };
  // An imported pool reserves many addresses: those of failed calls must be available again.
  for (int round = 0; round < 3; ++round) each_allocation(share);
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, MappedMemory) {
  each_allocation([] {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle memory = 0, again = 0;
    CUdeviceptr range = 0;
    int fd = -1;
    bool mapped = false;
    CUresult code = cuMemCreate(&memory, kUnit, &prop, 0);
    if (code == CUDA_SUCCESS) code = cuMemAddressReserve(&range, 2 * kUnit, 0, 0, 0);
    if (code == CUDA_SUCCESS) {
      code = cuMemMap(range, kUnit, 0, memory, 0);
      mapped = code == CUDA_SUCCESS;
    }
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (code == CUDA_SUCCESS) code = cuMemSetAccess(range, kUnit, &access, 1);
    if (code == CUDA_SUCCESS) code = cuMemsetD8Async(range, 3, kUnit, nullptr);
    if (code == CUDA_SUCCESS)
      code = cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (code == CUDA_SUCCESS)
      code = cuMemImportFromShareableHandle(
          &again, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const Enough enough;
    EXPECT_OK(cuCtxSynchronize());
    if (fd >= 0) close(fd);
    if (again) {
      EXPECT_OK(cuMemRelease(again));
    }
    if (mapped) {
      EXPECT_OK(cuMemUnmap(range, kUnit));
    }
    if (range) {
      EXPECT_OK(cuMemAddressFree(range, 2 * kUnit));
    }
    if (memory) {
      EXPECT_OK(cuMemRelease(memory));
    }
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, ArraysAndTextures) {
  each_allocation([] {
    CUDA_ARRAY3D_DESCRIPTOR desc{};
    desc.Width = desc.Height = 16;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    CUarray array = nullptr, level = nullptr;
    CUmipmappedArray pyramid = nullptr;
    CUtexObject texture = 0;
    CUsurfObject surface = 0;
    CUresult code = cuArray3DCreate(&array, &desc);
    if (code == CUDA_SUCCESS) code = cuMipmappedArrayCreate(&pyramid, &desc, 3);
    if (code == CUDA_SUCCESS) code = cuMipmappedArrayGetLevel(&level, pyramid, 1);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC how{};
    how.maxAnisotropy = 1;
    if (code == CUDA_SUCCESS) code = cuTexObjectCreate(&texture, &resource, &how, nullptr);
    if (code == CUDA_SUCCESS) code = cuSurfObjectCreate(&surface, &resource);
    float row[16] = {};
    if (code == CUDA_SUCCESS) code = cuMemcpyHtoA(array, 0, row, sizeof row);
    const Enough enough;
    if (surface) {
      EXPECT_OK(cuSurfObjectDestroy(surface));
    }
    if (texture) {
      EXPECT_OK(cuTexObjectDestroy(texture));
    }
    if (pyramid) {
      EXPECT_OK(cuMipmappedArrayDestroy(pyramid));
    }
    if (array) {
      EXPECT_OK(cuArrayDestroy(array));
    }
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, LibrariesAndLinks) {
  each_allocation([] {
    CUlibrary library = nullptr;
    CUlinkState state = nullptr;
    CUresult code = cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    CUdeviceptr table = 0;
    std::size_t bytes = 0;
    if (code == CUDA_SUCCESS) code = cuLibraryGetKernel(&kernel, library, "noop");
    if (code == CUDA_SUCCESS) code = cuKernelGetFunction(&function, kernel);
    if (code == CUDA_SUCCESS) code = cuLibraryGetGlobal(&table, &bytes, library, "table");
    if (code == CUDA_SUCCESS) code = cuLinkCreate(0, nullptr, nullptr, &state);
    if (code == CUDA_SUCCESS)
      code = cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(kKernels), sizeof kKernels,
                           "kernels", 0, nullptr, nullptr);
    void* image = nullptr;
    std::size_t size = 0;
    if (code == CUDA_SUCCESS) code = cuLinkComplete(state, &image, &size);
    const Enough enough;
    if (state) {
      EXPECT_OK(cuLinkDestroy(state));
    }
    if (library) {
      EXPECT_OK(cuLibraryUnload(library));
    }
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, GraphNodes) {
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 4096));
  const CUfunction add = kernel("add");
  each_allocation([&] {
    CUgraph graph = nullptr, child = nullptr, copy = nullptr;
    CUgraphExec exec = nullptr;
    CUresult code = cuGraphCreate(&graph, 0);
    if (code == CUDA_SUCCESS) code = cuGraphCreate(&child, 0);
    CUgraphNode fill = nullptr, move = nullptr, host = nullptr, call = nullptr, inner = nullptr,
                wait = nullptr;
    CUDA_MEMSET_NODE_PARAMS zeros{memory, 0, 0, 4, 16, 1};
    if (code == CUDA_SUCCESS)
      code = cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &zeros, context_);
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = memory;
    p.dstDevice = memory + 1024;
    p.WidthInBytes = 64;
    p.Height = p.Depth = 1;
    if (code == CUDA_SUCCESS) code = cuGraphAddMemcpyNode(&move, graph, &fill, 1, &p, context_);
    CUDA_HOST_NODE_PARAMS function{[](void*) {}, nullptr};
    if (code == CUDA_SUCCESS) code = cuGraphAddHostNode(&host, graph, &move, 1, &function);
    unsigned one = 1;
    void* arguments[] = {&memory, &one};
    CUDA_KERNEL_NODE_PARAMS run{};
    run.func = add;
    run.gridDimX = run.gridDimY = run.gridDimZ = run.blockDimX = run.blockDimY = run.blockDimZ = 1;
    run.kernelParams = arguments;
    if (code == CUDA_SUCCESS) code = cuGraphAddKernelNode(&call, graph, &host, 1, &run);
    if (code == CUDA_SUCCESS) code = cuGraphAddEmptyNode(&inner, child, nullptr, 0);
    if (code == CUDA_SUCCESS) code = cuGraphAddChildGraphNode(&wait, graph, &call, 1, child);
    if (code == CUDA_SUCCESS) code = cuGraphClone(&copy, graph);
    if (code == CUDA_SUCCESS) code = cuGraphInstantiate(&exec, graph, 0);
    CUgraphExecUpdateResultInfo how{};
    if (code == CUDA_SUCCESS) code = cuGraphExecUpdate(exec, copy, &how);
    if (code == CUDA_SUCCESS) code = cuGraphExecKernelNodeSetParams(exec, call, &run);
    if (code == CUDA_SUCCESS) code = cuGraphLaunch(exec, nullptr);
    const Enough enough;
    EXPECT_OK(cuCtxSynchronize());
    if (exec) {
      EXPECT_OK(cuGraphExecDestroy(exec));
    }
    for (const CUgraph made : {copy, child, graph})
      if (made) {
        EXPECT_OK(cuGraphDestroy(made));
      }
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, GraphMemory) {
  each_allocation([&] {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUresult code = cuGraphCreate(&graph, 0);
    CUDA_MEM_ALLOC_NODE_PARAMS wish{};
    wish.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wish.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wish.bytesize = 4096;
    CUgraphNode take = nullptr, give = nullptr;
    if (code == CUDA_SUCCESS) code = cuGraphAddMemAllocNode(&take, graph, nullptr, 0, &wish);
    if (code == CUDA_SUCCESS) code = cuGraphAddMemFreeNode(&give, graph, &take, 1, wish.dptr);
    if (code == CUDA_SUCCESS) code = cuGraphInstantiate(&exec, graph, 0);
    if (code == CUDA_SUCCESS) code = cuGraphUpload(exec, nullptr);
    if (code == CUDA_SUCCESS) code = cuGraphLaunch(exec, nullptr);
    const Enough enough;
    EXPECT_OK(cuCtxSynchronize());
    if (exec) {
      EXPECT_OK(cuGraphExecDestroy(exec));
    }
    if (graph) {
      EXPECT_OK(cuGraphDestroy(graph));
    }
    EXPECT_OK(cuDeviceGraphMemTrim(0));
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, GraphEvents) {
  each_allocation([&] {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUgraphNode node = nullptr;
    CUevent events[2] = {};
    CUresult code = cuGraphCreate(&graph, 0);
    for (const unsigned flags : {0u, unsigned{CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING}}) {
      CUevent& event = events[flags != 0];
      if (code == CUDA_SUCCESS) code = cuEventCreate(&event, flags);
      if (code == CUDA_SUCCESS) code = cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event);
      if (code == CUDA_SUCCESS) code = cuGraphAddEventRecordNode(&node, graph, &node, 1, event);
    }
    if (code == CUDA_SUCCESS) code = cuGraphInstantiate(&exec, graph, 0);
    for (int round = 0; round < 2; ++round)
      if (code == CUDA_SUCCESS) code = cuGraphLaunch(exec, nullptr);
    const Enough enough;
    for (const CUevent event : events)
      if (event) {
        EXPECT_OK(cuEventSynchronize(event));  // also after a failed launch: a wait must return
        EXPECT_OK(cuEventDestroy(event));
      }
    EXPECT_OK(cuCtxSynchronize());
    if (exec) {
      EXPECT_OK(cuGraphExecDestroy(exec));
    }
    if (graph) {
      EXPECT_OK(cuGraphDestroy(graph));
    }
    return code;
  });
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, StreamMemoryOperations) {
  unsigned* word = words(4);
  const CUdeviceptr at = address(word);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  each_allocation([&] {
    CUresult code = cuStreamWriteValue32(stream, at, 7, 0);
    if (code == CUDA_SUCCESS) code = cuStreamWaitValue32(stream, at, 7, CU_STREAM_WAIT_VALUE_EQ);
    CUstreamBatchMemOpParams list[2]{};
    list[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 4, {1}, 0, 0};
    list[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, at + 4, {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
    if (code == CUDA_SUCCESS) code = cuStreamBatchMemOp(stream, 2, list, 0);
    if (code == CUDA_SUCCESS)
      code = cuStreamAddCallback(
          stream, [](CUstream, CUresult, void*) {}, nullptr, 0);
    if (code == CUDA_SUCCESS) code = cuMemcpyHtoDAsync(at + 8, "four", 4, stream);
    const Enough enough;
    EXPECT_OK(cuStreamSynchronize(stream));
    return code;
  });
  EXPECT_OK(cuStreamDestroy(stream));
}

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(Injection, ExportedHandles) {
  each_allocation([&] {
    CUdeviceptr memory = 0;
    CUipcMemHandle handle{};
    CUipcEventHandle mark{};
    CUevent event = nullptr;
    CUresult code = cuMemAlloc(&memory, kUnit);
    if (code == CUDA_SUCCESS) code = cuIpcGetMemHandle(&handle, memory);
    if (code == CUDA_SUCCESS)
      code = cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS) code = cuIpcGetEventHandle(&mark, event);
    if (code == CUDA_SUCCESS) code = cuEventRecord(event, nullptr);
    CUexternalSemaphore semaphore = nullptr;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc{};
    desc.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
    desc.handle.fd = eventfd(0, EFD_CLOEXEC);
    const CUresult imported =
        code == CUDA_SUCCESS ? cuImportExternalSemaphore(&semaphore, &desc) : CUDA_ERROR_UNKNOWN;
    if (imported != CUDA_SUCCESS) close(desc.handle.fd);  // still owned by the caller
    if (code == CUDA_SUCCESS) code = imported;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS raise{};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
    if (code == CUDA_SUCCESS)
      code = cuSignalExternalSemaphoresAsync(&semaphore, &raise, 1, nullptr);
    if (code == CUDA_SUCCESS) code = cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, nullptr);
    const Enough enough;
    EXPECT_OK(cuCtxSynchronize());
    if (semaphore) {
      EXPECT_OK(cuDestroyExternalSemaphore(semaphore));
    }
    if (event) {
      EXPECT_OK(cuEventDestroy(event));
    }
    if (memory) {
      EXPECT_OK(cuMemFree(memory));
    }
    return code;
  });
}

/// Another process that exports memory and an event before this process uses the driver.
class InjectionHandles : public Injection {
 protected:
  void SetUp() override {
    NEEDS_FRESH_PROCESS();
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    other_ = fork();
    if (other_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      CUcontext context = nullptr;
      CUdeviceptr memory = 0;
      CUevent event = nullptr;
      if (cuInit(0) || cuCtxCreate(&context, nullptr, 0, 0) || cuMemAlloc(&memory, kUnit) ||
          cuIpcGetMemHandle(&memory_, memory) ||
          cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ||
          cuIpcGetEventHandle(&event_, event) ||
          write(ends[1], &memory_, sizeof memory_) != sizeof memory_ ||
          write(ends[1], &event_, sizeof event_) != sizeof event_)
        _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    ASSERT_EQ(static_cast<ssize_t>(sizeof memory_), read(ends[0], &memory_, sizeof memory_));
    ASSERT_EQ(static_cast<ssize_t>(sizeof event_), read(ends[0], &event_, sizeof event_));
    close(ends[0]);
    Injection::SetUp();
  }
  void TearDown() override {
    if (other_ <= 0) return;
    Injection::TearDown();
    kill(other_, SIGKILL);
    waitpid(other_, nullptr, 0);
  }
  CUipcMemHandle memory_{};
  CUipcEventHandle event_{};
  pid_t other_ = -1;
};

// promise: When any allocation inside a driver call fails, the call returns an error and
// releases partly constructed objects
TEST_F(InjectionHandles, ImportedHandles) {
  each_allocation([&] {
    CUdeviceptr memory = 0, again = 0;
    CUevent event = nullptr;
    CUresult code = cuIpcOpenMemHandle(&memory, memory_, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (code == CUDA_SUCCESS)
      code = cuIpcOpenMemHandle(&again, memory_, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (code == CUDA_SUCCESS) code = cuIpcOpenEventHandle(&event, event_);
    const Enough enough;
    if (event) {
      EXPECT_OK(cuEventDestroy(event));
    }
    for (const CUdeviceptr opened : {again, memory})
      if (opened) {
        EXPECT_OK(cuIpcCloseMemHandle(opened));
      }
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(memory)) << "it is still open";
    return code;
  });
}

}  // namespace
