// SPDX-License-Identifier: Apache-2.0
// Checkpoints: calls wait while the process is locked; the order of states.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "support.hpp"

namespace {

class Checkpoints : public DriverTest {
 protected:
  static CUprocessState state() {
    CUprocessState s = CU_PROCESS_STATE_FAILED;
    EXPECT_OK(cuCheckpointProcessGetState(getpid(), &s));
    return s;
  }
};

TEST_F(Checkpoints, StatesFollowLockCheckpointRestoreUnlock) {
  const int pid = getpid();
  EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessUnlock(pid, nullptr));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessCheckpoint(pid, nullptr));
  unsigned* word = words(1);
  ASSERT_OK(launch(kernel("store"), 1, nullptr, address(word), 8u));
  ASSERT_OK(cuCheckpointProcessLock(pid, nullptr));
  EXPECT_EQ(8u, *word);  // the running work has completed
  EXPECT_EQ(CU_PROCESS_STATE_LOCKED, state());
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessLock(pid, nullptr));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessRestore(pid, nullptr));
  ASSERT_OK(cuCheckpointProcessCheckpoint(pid, nullptr));
  EXPECT_EQ(CU_PROCESS_STATE_CHECKPOINTED, state());
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessUnlock(pid, nullptr));
  int tid = 0;
  ASSERT_OK(cuCheckpointProcessGetRestoreThreadId(pid, &tid));
  EXPECT_EQ(pid, tid);
  ASSERT_OK(cuCheckpointProcessRestore(pid, nullptr));
  ASSERT_OK(cuCheckpointProcessUnlock(pid, nullptr));
  EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
  EXPECT_EQ(8u, *word);
}

TEST_F(Checkpoints, CallsOfOtherThreadsWaitForTheUnlock) {
  const int pid = getpid();
  ASSERT_OK(cuCheckpointProcessLock(pid, nullptr));
  std::atomic<bool> through{false};
  std::thread other{[&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    through = true;
    EXPECT_OK(cuCtxSetCurrent(nullptr));
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_FALSE(through.load());
  ASSERT_OK(cuCheckpointProcessUnlock(pid, nullptr));
  other.join();
  EXPECT_TRUE(through.load());
}

TEST_F(Checkpoints, LockFailsAfterItsTimeout) {
  unsigned* flag = words(1);
  ASSERT_OK(launch(kernel("spin"), 1, nullptr, address(flag)));
  CUcheckpointLockArgs args{};
  args.timeoutMs = 5;
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuCheckpointProcessLock(getpid(), &args));
  EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
  std::atomic_ref{*static_cast<unsigned*>(flag)} = 1u;
  ASSERT_OK(cuCtxSynchronize());
}

TEST_F(Checkpoints, UnknownProcessesAndDevicesFail) {
  CUprocessState s{};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessGetState(-4, &s));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessGetState(getppid(), &s));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessGetState(getpid(), nullptr));
  const int pid = getpid();
  ASSERT_OK(cuCheckpointProcessLock(pid, nullptr));
  ASSERT_OK(cuCheckpointProcessCheckpoint(pid, nullptr));
  CUcheckpointGpuPair pair{};
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = &pair;
  args.gpuPairsCount = 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessRestore(pid, &args));  // no such device
  args.gpuPairsCount = 0;
  ASSERT_OK(cuCheckpointProcessRestore(pid, &args));
  ASSERT_OK(cuCheckpointProcessUnlock(pid, nullptr));
}

}  // namespace
