// SPDX-License-Identifier: Apache-2.0
// error.cpp: the thread's last error, error names and descriptions, versions.
#include <cstring>
#include <string>

#include "runtime/state.hpp"

namespace cucore {
namespace rt {
namespace {

thread_local cudaError_t last = cudaSuccess;

std::string& detail() {
  thread_local std::string text;
  return text;
}

struct Name {
  cudaError_t code;
  const char* name;
};
constexpr Name kNames[] = {
#define CUCORE_RT_ERROR(name, value) {static_cast<cudaError_t>(value), #name},
#include "runtime_errors.inc"
#undef CUCORE_RT_ERROR
};

const char* get_error_name(cudaError_t code) {
  for (const Name& row : kNames) {
    if (row.code == code) return row.name;
  }
  return "unrecognized error code";
}

/// Descriptions of the codes that only the runtime API has.
const char* runtime_only_string(cudaError_t code) {
  switch (code) {
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidPitchValue:
      return "invalid pitch argument";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorMissingConfiguration:
      return "__global__ function call is not configured";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    default:
      return nullptr;
  }
}

const char* get_error_string(cudaError_t code) {
  if (const char* const text = runtime_only_string(code); text != nullptr) return text;
  try {
    const char* text = nullptr;
    if (driver().cuGetErrorString(static_cast<CUresult>(code), &text) == CUDA_SUCCESS &&
        text != nullptr)
      return text;
  } catch (const std::exception&) {  // no driver: the error name is returned instead
  }
  return code == cudaSuccess ? "no error" : get_error_name(code);
}

cudaError_t get_last_error() { return last_error(true); }
cudaError_t peek_at_last_error() { return last_error(false); }

cudaError_t runtime_get_version(int* version) {
  if (version == nullptr) return set_last_error(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

/// Without a driver the version is 0 and the call succeeds.
cudaError_t driver_get_version(int* version) {
  if (version == nullptr) return set_last_error(cudaErrorInvalidValue);
  try {
    return set_last_error(from(driver().cuDriverGetVersion(version)));
  } catch (const std::exception&) {
    *version = 0;
    return cudaSuccess;
  }
}

}  // namespace

cudaError_t set_last_error(cudaError_t code) noexcept {
  if (code != cudaSuccess) [[unlikely]]
    last = code;
  return code;
}

cudaError_t last_error(bool clear) noexcept {
  return clear ? std::exchange(last, cudaSuccess) : last;
}

cudaError_t driver_load_error(const std::exception& reason) noexcept {
  try {
    detail() = reason.what();
  } catch (...) {  // out of memory: only the error code is reported
  }
  return cudaErrorInsufficientDriver;
}

void install_errors(RuntimeTable& t) {
  t.cudaGetErrorName = get_error_name;
  t.cudaGetErrorString = get_error_string;
  t.cudaGetLastError = get_last_error;
  t.cudaPeekAtLastError = peek_at_last_error;
  t.cudaRuntimeGetVersion = runtime_get_version;
  t.cudaDriverGetVersion = driver_get_version;
}

}  // namespace rt

const char* runtime_error_detail() noexcept { return rt::detail().c_str(); }

}  // namespace cucore
