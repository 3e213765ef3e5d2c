// cpu/device/guard.hpp: the one gate every entry point goes through: process state in, exceptions
// out.
#pragma once

#include <atomic>
#include <type_traits>
#include <utility>

#include "cpu/base/error.hpp"

namespace cucpu::driver {

enum class ProcessState : int {
  not_initialized,
  ready,
  forked,
  locked,
  ended  ///< exit() has begun: what the driver is made of is being destroyed
};
extern std::atomic<ProcessState> g_process_state;

/// True while this thread runs a host function or stream callback, where CUDA calls are not
/// allowed.
extern thread_local bool t_in_callback;

/// A process that cuCheckpointProcessLock stopped: waits for the unlock. Otherwise answers 3, and 4
/// once the process ends.
CUresult gate_when_not_ready() noexcept;

/// What a call answers before it does anything: 0 when it may go on.
inline CUresult gate() noexcept {
  if (g_process_state.load(std::memory_order_acquire) != ProcessState::ready) [[unlikely]]
    if (const CUresult state = gate_when_not_ready(); state != CUDA_SUCCESS) return state;
  if (t_in_callback) [[unlikely]]
    return CUDA_ERROR_NOT_PERMITTED;
  return CUDA_SUCCESS;
}

/// Runs `f`; it returns a CUresult or nothing, and may throw.
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

template <class F>
CUresult guarded(F&& f) noexcept {
  if (const CUresult state = gate(); state != CUDA_SUCCESS) [[unlikely]]
    return state;
  return guarded_without_init(std::forward<F>(f));
}

}  // namespace cucpu::driver
