// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/cupti.hpp: guarded(), which every entry point calls, and the driver functions that this
// library needs.
#pragma once

#include <exception>
#include <new>

#include "cpu/trace/observer.hpp"
#include "cucore/abi/cupti.h"

namespace cucpu::cupti {

struct Failure {
  CUptiResult code;
};

[[noreturn]] inline void fail(CUptiResult code) { throw Failure{code}; }
inline void require(bool ok, CUptiResult code = CUPTI_ERROR_INVALID_PARAMETER) {
  if (!ok) fail(code);
}

/// What cuptiGetLastError returns on this thread.
void set_last_error(CUptiResult code) noexcept;

/// Turns exceptions into return codes.
template <class F>
CUptiResult guarded(F&& f) noexcept {
  CUptiResult code = CUPTI_ERROR_UNKNOWN;
  try {
    f();
    return CUPTI_SUCCESS;
  } catch (const Failure& failure) {
    code = failure.code;
  } catch (const std::bad_alloc&) {
    code = CUPTI_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
  }
  set_last_error(code);
  return code;
}

/// The functions of the CPU device's driver.
struct Driver {
  /// Finds the driver of the process and initializes it. Fails with NOT_INITIALIZED if it is not
  /// the CPU device: NVIDIA's CUPTI observes NVIDIA's driver.
  static const Driver& instance();

  int (*cucoreObserve)(const void*);
  decltype(&::cuInit) cuInit;
  decltype(&::cuCtxGetCurrent) cuCtxGetCurrent;
  decltype(&::cuCtxPushCurrent) cuCtxPushCurrent;
  decltype(&::cuCtxPopCurrent) cuCtxPopCurrent;
  decltype(&::cuCtxGetId) cuCtxGetId;
  decltype(&::cuCtxGetDevice) cuCtxGetDevice;
  decltype(&::cuStreamGetId) cuStreamGetId;
  decltype(&::cuFuncGetName) cuFuncGetName;
  decltype(&::cuDeviceGetCount) cuDeviceGetCount;
  decltype(&::cuDeviceGetName) cuDeviceGetName;
  decltype(&::cuDeviceGetUuid) cuDeviceGetUuid;
  decltype(&::cuDeviceGetAttribute) cuDeviceGetAttribute;
  decltype(&::cuDeviceTotalMem) cuDeviceTotalMem;
};

/// Nanoseconds since 1970, as in all records, of a time of the driver's monotonic clock.
std::uint64_t timestamp(std::int64_t driver_time) noexcept;
std::uint64_t timestamp_now() noexcept;

/// The current context of the thread, its number and its device; zeros if there is none.
struct CurrentContext {
  CUcontext handle = nullptr;
  std::uint32_t id = CUPTI_INVALID_CONTEXT_ID;
  std::uint32_t device = CUPTI_INVALID_DEVICE_ID;
};
CurrentContext current_context();
/// The number of a stream of the current context; INVALID_STREAM_ID if there is none.
std::uint32_t stream_id(CUstream stream);

/// Tells the driver to call, or not to call, observer.cpp, as activities and callbacks need it.
void update_observation();

}  // namespace cucpu::cupti
