// SPDX-License-Identifier: Apache-2.0
// Bad arguments of the functions that codes.py leaves out, because they change or stop the whole
// process.
#include <unistd.h>

#include <string>

#include "support.hpp"

namespace {

constexpr CUresult kBad = CUDA_ERROR_INVALID_VALUE;

class BadArguments : public DriverTest {};

TEST_F(BadArguments, InitAndResetReturnTheirErrorCodes) {
  EXPECT_EQ(kBad, cuInit(1));
  EXPECT_EQ(kBad, cuInit(0x80000000u));
  EXPECT_OK(cuInit(0));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(-1));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(99));
}

TEST_F(BadArguments, CheckpointCallsReturnTheirErrorCodes) {
  constexpr int kNobody = 0x7fffffff;
  const int pid = getpid();
  CUprocessState state{};
  int thread = 0;
  EXPECT_EQ(kBad, cuCheckpointProcessGetState(pid, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessGetState(kNobody, &state));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessGetState(-1, &state));
  EXPECT_EQ(kBad, cuCheckpointProcessGetRestoreThreadId(pid, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessGetRestoreThreadId(kNobody, &thread));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessLock(kNobody, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessCheckpoint(kNobody, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessRestore(kNobody, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuCheckpointProcessUnlock(kNobody, nullptr));
  CUcheckpointRestoreArgs restore{};
  restore.gpuPairsCount = 1;  // with a null list
  ASSERT_OK(cuCheckpointProcessLock(pid, nullptr));
  ASSERT_OK(cuCheckpointProcessCheckpoint(pid, nullptr));
  EXPECT_EQ(kBad, cuCheckpointProcessRestore(pid, &restore));
  ASSERT_OK(cuCheckpointProcessRestore(pid, nullptr));
  ASSERT_OK(cuCheckpointProcessUnlock(pid, nullptr));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(BadArguments, CoreDumpCallsReturnTheirErrorCodes) {
  bool on = false;
  std::size_t size = sizeof on, none = 0;
  const auto nothing = static_cast<CUcoredumpSettings>(9999);
  for (const auto get : {cuCoredumpGetAttribute, cuCoredumpGetAttributeGlobal}) {
    EXPECT_EQ(kBad, get(nothing, &on, &size));
    EXPECT_EQ(kBad, get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, nullptr));
    EXPECT_EQ(kBad, get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &none));
  }
  for (const auto set : {cuCoredumpSetAttribute, cuCoredumpSetAttributeGlobal}) {
    EXPECT_EQ(kBad, set(nothing, &on, &size));
    EXPECT_EQ(kBad, set(CU_COREDUMP_ENABLE_ON_EXCEPTION, nullptr, &size));
    EXPECT_EQ(kBad, set(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, nullptr));
    EXPECT_EQ(kBad, set(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &none));
  }
  constexpr CUcoredumpStatusCallback kIgnore = [](void*, int, CUdevice) {};
  EXPECT_EQ(kBad, cuCoredumpRegisterStartCallback(kIgnore, nullptr, nullptr));
  EXPECT_EQ(kBad, cuCoredumpRegisterCompleteCallback(kIgnore, nullptr, nullptr));
  EXPECT_EQ(kBad, cuCoredumpDeregisterStartCallback(nullptr));
  EXPECT_EQ(kBad, cuCoredumpDeregisterCompleteCallback(nullptr));
}

TEST_F(BadArguments, ProfilerAndLogCallsReturnTheirErrorCodes) {
  EXPECT_EQ(kBad, cuProfilerInitialize(nullptr, "out", CU_OUT_CSV));
  EXPECT_EQ(kBad, cuProfilerInitialize("in", nullptr, CU_OUT_CSV));
  EXPECT_EQ(kBad, cuProfilerInitialize("in", "out", static_cast<CUoutput_mode>(9999)));
  constexpr CUlogsCallback kIgnore = [](void*, CUlogLevel, char*, std::size_t) {};
  CUlogsCallbackHandle handle = nullptr;
  CUlogIterator at = 0;
  char text[8];
  std::size_t size = sizeof text, none = 0;
  EXPECT_EQ(kBad, cuLogsRegisterCallback(nullptr, nullptr, &handle));
  EXPECT_EQ(kBad, cuLogsRegisterCallback(kIgnore, nullptr, nullptr));
  EXPECT_EQ(kBad, cuLogsUnregisterCallback(nullptr));
  EXPECT_EQ(kBad, cuLogsCurrent(nullptr, 0));
  EXPECT_EQ(kBad, cuLogsCurrent(&at, 1));
  EXPECT_EQ(kBad, cuLogsDumpToFile(&at, nullptr, 0));
  EXPECT_EQ(kBad, cuLogsDumpToFile(&at, "/nowhere/at/all", 0));
  EXPECT_EQ(kBad, cuLogsDumpToFile(&at, "log", 1));
  EXPECT_EQ(kBad, cuLogsDumpToMemory(&at, nullptr, &size, 0));
  EXPECT_EQ(kBad, cuLogsDumpToMemory(&at, text, nullptr, 0));
  EXPECT_EQ(kBad, cuLogsDumpToMemory(&at, text, &none, 0));
  EXPECT_EQ(kBad, cuLogsDumpToMemory(&at, text, &size, 1));
}

/// Actions of a log callback: calls that fail and write to the log, and unregistration of itself
/// and of the next callback.
struct Listener {
  CUlogsCallbackHandle own = nullptr, next = nullptr;
  int heard = 0;
  static void hear(void* data, CUlogLevel, char*, std::size_t) {
    auto& self = *static_cast<Listener*>(data);
    ++self.heard;
    CUmodule module = nullptr;
    EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "syntax error"));
    if (self.next) {
      EXPECT_OK(cuLogsUnregisterCallback(self.next));
      EXPECT_OK(cuLogsUnregisterCallback(self.own));
    }
  }
};

TEST_F(BadArguments, FailingCallsInLogCallbacksReturnTheirErrorCodes) {
  Listener first, second;
  ASSERT_OK(cuLogsRegisterCallback(Listener::hear, &first, &first.own));
  ASSERT_OK(cuLogsRegisterCallback(Listener::hear, &second, &second.own));
  first.next = second.own;
  CUmodule module = nullptr;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "syntax error"));
  EXPECT_EQ(1, first.heard);
  EXPECT_EQ(0, second.heard);
  EXPECT_EQ(kBad, cuLogsUnregisterCallback(first.own));
}

}  // namespace
