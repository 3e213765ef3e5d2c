// SPDX-License-Identifier: Apache-2.0
// The state of the process.
#include "cpu/device/guard.hpp"

namespace cucpu::driver {

std::atomic<ProcessState> g_process_state{ProcessState::not_initialized};

ProcessLock& process_lock() {
  static ProcessLock& l = *new ProcessLock;
  return l;
}

CUresult gate_when_not_ready() noexcept {
  const ProcessState now = g_process_state.load(std::memory_order_acquire);
  if (now == ProcessState::ended) return CUDA_ERROR_DEINITIALIZED;
  if (now != ProcessState::locked) return CUDA_ERROR_NOT_INITIALIZED;
  ProcessLock& l = process_lock();
  std::unique_lock lock{l.mutex};
  l.changed.wait(lock, [] { return g_process_state.load() != ProcessState::locked; });
  return g_process_state.load() == ProcessState::ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace cucpu::driver
