// SPDX-License-Identifier: Apache-2.0
// cpu/device/guard.hpp: guarded(), which every entry point calls: it checks the state of the
// process and turns exceptions into return codes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <type_traits>
#include <utility>

#include "cpu/base/error.hpp"
#include "cpu/exec/callback.hpp"
#include "cpu/exec/error_code.hpp"
#include "cpu/trace/trace.hpp"

namespace cucpu::driver {

enum class ProcessState : int {
  not_initialized,
  ready,
  forked,
  locked,
  ended  ///< exit() has begun: objects of the driver are being destroyed
};
extern std::atomic<ProcessState> g_process_state;

/// The state that cuCheckpointProcess* moves the process through. `changed` wakes calls that wait
/// for the unlock.
struct ProcessLock {
  std::mutex mutex;
  std::condition_variable changed;
  CUprocessState state = CU_PROCESS_STATE_RUNNING;
};
ProcessLock& process_lock();

/// In a process locked by cuCheckpointProcessLock: waits for the unlock. Otherwise returns 3, or 4
/// once the process exits.
CUresult gate_when_not_ready() noexcept;

/// The state check of a call: 0 when it may proceed.
inline CUresult gate() noexcept {
  if (g_process_state.load(std::memory_order_acquire) != ProcessState::ready) [[unlikely]]
    if (const CUresult state = gate_when_not_ready(); state != CUDA_SUCCESS) return state;
  if (t_in_callback) [[unlikely]]
    return CUDA_ERROR_NOT_PERMITTED;
  return CUDA_SUCCESS;
}

/// Runs `f`, which returns a CUresult or nothing and may throw.
template <class F>
CUresult guarded_without_init(F&& f) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      return CUDA_SUCCESS;
    } else {
      return std::forward<F>(f)();
    }
  } catch (...) {
    return code_of_current_exception();
  }
}

/// `function`: the entry point, which is the caller unless it is given.
template <class F>
CUresult guarded(F&& f, const char* function = __builtin_FUNCTION()) noexcept {
  if (const CUresult state = gate(); state != CUDA_SUCCESS) [[unlikely]]
    return state;
  trace::Call call{function};
  const CUresult result = guarded_without_init(std::forward<F>(f));
  call.set_result(result);
  return result;
}

using trace::Parameters;

/// The same, with the parameters of the entry point, which callbacks of CUPTI may read.
template <class... P, class F>
CUresult guarded(const Parameters<P...>& parameters, F&& f,
                 const char* function = __builtin_FUNCTION()) noexcept {
  if (const CUresult state = gate(); state != CUDA_SUCCESS) [[unlikely]]
    return state;
  trace::Call call{function, parameters};
  const CUresult result = guarded_without_init(std::forward<F>(f));
  call.set_result(result);
  return result;
}

}  // namespace cucpu::driver
