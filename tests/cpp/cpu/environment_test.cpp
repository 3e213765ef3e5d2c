// What the environment decides, each case in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "support.hpp"

namespace {

/// The exit status of `body` in a fresh process with the given variable set.
int in_process(const char* name, const char* value, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv(name, value, 1);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int init_result() { return static_cast<int>(cuInit(0)); }
int count_after_init() {
  int count = -1;
  return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 200;
}

TEST(Environment, UnreadableValuesFailInit) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_DEVICES", "many", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_THREADS", "0", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_MEMORY", "lots", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_TIMEOUT", "soon", init_result));
}

TEST(Environment, DevicesAreCountedAndChosen) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(4, in_process("CUCORE_CPU_DEVICES", "4", count_after_init));
  EXPECT_EQ(2, in_process("CUCORE_CPU_DEVICES", "4", [] {
              setenv("CUDA_VISIBLE_DEVICES", "3,1,9,0", 1);  // the first bad one ends the list
              return count_after_init();
            }));
  EXPECT_EQ(CUDA_ERROR_NO_DEVICE, in_process("CUDA_VISIBLE_DEVICES", "-1", init_result));
}

TEST(Environment, MemoryIsBounded) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(0, in_process("CUCORE_CPU_MEMORY", "64M", [] {
              CUcontext context = nullptr;
              CUdeviceptr p = 0;
              std::size_t total = 0;
              if (cuInit(0) || cuCtxCreate(&context, nullptr, 0, 0) || cuDeviceTotalMem(&total, 0))
                return 1;
              if (total != 64u << 20) return 2;
              if (cuMemAlloc(&p, 65 << 20) != CUDA_ERROR_OUT_OF_MEMORY) return 3;
              return cuMemAlloc(&p, 63 << 20) == CUDA_SUCCESS ? 0 : 4;
            }));
}

/// 0, or the number of the first step that did not go as it should.
int exceed_with_every_kind() {
  CUcontext context = nullptr;
  std::size_t before = 0, after = 0, total = 0, pitch = 0;
  if (cuInit(0) || cuCtxCreate(&context, nullptr, 0, 0)) return 1;
  constexpr std::size_t kTooMuch = std::size_t{80} << 20;
  CUdeviceptr p = 0;
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  CUmodule module = nullptr;
  CUmemGenericAllocationHandle memory = 0;
  if (cuStreamCreate(&stream, 0) || cuGraphCreate(&graph, 0) || cuDeviceGetDefaultMemPool(&pool, 0))
    return 2;
  CUDA_ARRAY3D_DESCRIPTOR box{};
  box.Width = 8192, box.Height = 4096, box.Format = CU_AD_FORMAT_FLOAT, box.NumChannels = 1;
  CUDA_ARRAY_DESCRIPTOR flat{box.Width, box.Height, box.Format, 1};
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  alloc.bytesize = kTooMuch;
  CUmemPoolProps own{};
  own.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  own.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  own.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool shared = nullptr;
  if (cuMemPoolCreate(&shared, &own)) return 3;
  const std::string large =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .u32 table[20971520];\n";
  const std::function<CUresult()> kinds[] = {
      [&] { return cuMemAlloc(&p, kTooMuch); },
      [&] { return cuMemAllocPitch(&p, &pitch, 8192, kTooMuch / 8192, 4); },
      [&] { return cuMemAllocManaged(&p, kTooMuch, CU_MEM_ATTACH_GLOBAL); },
      [&] { return cuMemAllocAsync(&p, kTooMuch, stream); },
      [&] { return cuMemAllocFromPoolAsync(&p, kTooMuch, pool, stream); },
      [&] { return cuMemAllocFromPoolAsync(&p, kTooMuch, shared, stream); },
      [&] { return cuArrayCreate(&array, &flat); },
      [&] { return cuArray3DCreate(&array, &box); },
      [&] { return cuMipmappedArrayCreate(&mipmap, &box, 4); },
      [&] { return cuMemCreate(&memory, kTooMuch, &prop, 0); },
      [&] { return cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc); },
      [&] { return cuModuleLoadData(&module, large.c_str()); },
  };
  int step = 10;
  for (const auto& kind : kinds) {
    if (cuMemGetInfo(&before, &total)) return step;
    if (kind() != CUDA_ERROR_OUT_OF_MEMORY) return step + 1;
    if (cuCtxSynchronize() || cuMemGetInfo(&after, &total) || before != after) return step + 2;
    if (cuMemAlloc(&p, 32 << 20) || cuMemsetD32(p, 1, 16) || cuMemFree(p))
      return step + 3;  // all else goes on
    step += 10;
  }
  return 0;
}

TEST(Environment, EveryKindOfMemoryIsBoundedAndNothingElseChanges) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(0, in_process("CUCORE_CPU_MEMORY", "64M", exceed_with_every_kind));
}

TEST(Environment, FourDevicesReachEachOther) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(0, in_process("CUCORE_CPU_DEVICES", "4", [] {
              CUcontext contexts[4];
              CUdeviceptr p[4];
              if (cuInit(0)) return 1;
              for (int i = 0; i < 4; ++i) {
                int can = 0;
                if (cuCtxCreate(&contexts[i], nullptr, 0, i) || cuMemAlloc(&p[i], 64) ||
                    cuMemsetD32(p[i], 10u + i, 16))
                  return 2;
                if (i > 0 && (cuDeviceCanAccessPeer(&can, i, 0) || !can ||
                              cuCtxEnablePeerAccess(contexts[0], 0)))
                  return 3;
                if (i > 0 &&
                    cuCtxEnablePeerAccess(contexts[0], 0) != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
                  return 4;
              }
              for (int i = 1; i < 4; ++i)
                if (cuMemcpyPeer(p[i], contexts[i], p[i - 1], contexts[i - 1], 64)) return 5;
              int value = 0, ordinal = -1;
              if (cuMemcpyDtoH(&value, p[3], 4) || value != 10) return 6;
              if (cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[2]) ||
                  ordinal != 2)
                return 7;
              return 0;
            }));
}

}  // namespace
