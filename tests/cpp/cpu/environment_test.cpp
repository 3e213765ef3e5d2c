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
