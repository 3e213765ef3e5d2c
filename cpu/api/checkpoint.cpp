// SPDX-License-Identifier: Apache-2.0
// cuCheckpoint*: stops a process for a checkpoint. All state of the CPU device is memory of the
// process, so a checkpoint only waits for running work and blocks further calls until the unlock.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

namespace {

bool all_drained() {
  for (const auto& context : live_contexts()) {
    if (!context->legacy_stream().drained()) return false;
    for (const auto& stream : context->streams())
      if (!stream->drained()) return false;
  }
  return true;
}

/// Only the calling process is supported: fails with 1 for an invalid process id, with 801 for
/// another process.
void require_own(int pid) {
  require(pid > 0);
  if (pid == getpid()) return;
  require(kill(pid, 0) == 0 || errno == EPERM);
  fail(CUDA_ERROR_NOT_SUPPORTED, "the CPU device can lock and checkpoint the calling process only");
}

/// guarded() for calls that are allowed while the process is locked.
template <class F>
CUresult guarded_while_locked(F&& f) {
  const ProcessState now = g_process_state.load(std::memory_order_acquire);
  if (now != ProcessState::ready && now != ProcessState::locked) return CUDA_ERROR_NOT_INITIALIZED;
  if (t_in_callback) return CUDA_ERROR_NOT_PERMITTED;
  return guarded_without_init(std::forward<F>(f));
}

void step(int pid, CUprocessState from, CUprocessState to) {
  require_own(pid);
  ProcessLock& l = process_lock();
  const std::lock_guard lock{l.mutex};
  require(l.state == from, CUDA_ERROR_ILLEGAL_STATE);
  l.state = to;
}

}  // namespace

extern "C" {

CUresult cuCheckpointProcessGetState(int pid, CUprocessState* out) {
  return guarded_while_locked([&] {
    require(out != nullptr);
    require_own(pid);
    ProcessLock& l = process_lock();
    const std::lock_guard lock{l.mutex};
    *out = l.state;
  });
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int* tid) {
  return guarded_while_locked([&] {
    require(tid != nullptr);
    require_own(pid);
    *tid = getpid();  // the main thread: restoring needs no thread of its own
  });
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args) {
  return guarded_while_locked([&] {
    require_own(pid);
    ProcessLock& l = process_lock();
    {
      const std::lock_guard lock{l.mutex};
      require(l.state == CU_PROCESS_STATE_RUNNING, CUDA_ERROR_ILLEGAL_STATE);
      l.state = CU_PROCESS_STATE_LOCKED;
      g_process_state = ProcessState::locked;
    }
    const auto begin = std::chrono::steady_clock::now();
    while (!all_drained()) {
      if (args && args->timeoutMs &&
          std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds{args->timeoutMs}) {
        {
          const std::lock_guard lock{l.mutex};
          l.state = CU_PROCESS_STATE_RUNNING;
          g_process_state = ProcessState::ready;
        }
        l.changed.notify_all();
        fail(CUDA_ERROR_NOT_READY);
      }
      std::this_thread::sleep_for(std::chrono::microseconds{200});
    }
  });
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* args) {
  return guarded_while_locked([&] {
    require(!args || !args->customStorageInfo_out, CUDA_ERROR_NOT_SUPPORTED);
    step(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
  });
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* args) {
  return guarded_while_locked([&] {
    require_own(pid);
    if (args) {
      require(!args->customStorageInfo_out, CUDA_ERROR_NOT_SUPPORTED);
      require(args->gpuPairs || args->gpuPairsCount == 0);
      for (unsigned i = 0; i < args->gpuPairsCount; ++i) {
        bool known = false;
        for (int d = 0; d < device_count(); ++d)
          known |=
              std::memcmp(args->gpuPairs[i].oldUuid.bytes, device_of(d).uuid, sizeof(CUuuid)) == 0;
        require(known);
        // Addresses and attributes belong to a device: memory cannot move to another one.
        require(std::memcmp(&args->gpuPairs[i].oldUuid, &args->gpuPairs[i].newUuid,
                            sizeof(CUuuid)) == 0,
                CUDA_ERROR_NOT_SUPPORTED);
      }
    }
    step(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
  });
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  return guarded_while_locked([&] {
    require_own(pid);
    ProcessLock& l = process_lock();
    {
      const std::lock_guard lock{l.mutex};
      require(l.state == CU_PROCESS_STATE_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
      l.state = CU_PROCESS_STATE_RUNNING;
      g_process_state = ProcessState::ready;
    }
    l.changed.notify_all();
  });
}

}  // extern "C"
