// SPDX-License-Identifier: Apache-2.0
// cucore/error.hpp: exceptions for failed calls, with the result code as a value.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// Thrown if a CUDA call fails. `code()` is the library's result code (a CUresult for the driver),
/// `name()` its symbol, `call()` the function that failed and `object()` the object it was called
/// with.
class CUCORE_EXPORT CUDAError : public std::runtime_error {
 public:
  /// `text` is the text of what(); `call` and `object` may be empty.
  CUDAError(int code, std::string name, const std::string& text, std::string call = {},
            std::string object = {});
  /// Copies `error` with `text` as the new text of what(). `object` is used if `error` has none.
  CUDAError(const CUDAError& error, const std::string& text, std::string object = {});
  CUDAError(const CUDAError&) = default;
  CUDAError& operator=(const CUDAError&) = default;
  ~CUDAError() override;
  [[nodiscard]] int code() const noexcept { return code_; }  ///< the library's result code
  /// The symbol of the code, for example "CUDA_ERROR_INVALID_VALUE".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The function that failed, for example "cuLaunchKernel"; empty if no single function failed.
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  /// The object it was called with, for example "kernel saxpy"; empty if unknown.
  [[nodiscard]] const std::string& object() const noexcept { return object_; }
  /// Failures of the cleanup after this error, in order. The error thrown is always the first one.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Appends a note.
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

 private:
  int code_;
  std::string name_;
  std::string call_;
  std::string object_;
  std::vector<std::string> notes_;
};

/// Thrown if the device has insufficient memory for an allocation (CUDA_ERROR_OUT_OF_MEMORY). The
/// context stays usable.
class CUCORE_EXPORT OutOfMemoryError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~OutOfMemoryError() override;
};

/// Thrown if NVRTC fails; the text includes the compilation log.
class CUCORE_EXPORT NVRTCError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~NVRTCError() override;
};

/// Thrown if an NVML call fails; code() is an nvmlReturn_t, name() its symbol.
class CUCORE_EXPORT NVMLError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~NVMLError() override;
};

/// Thrown if the driver library, or a required function of it, is not available. The text lists all
/// attempts.
class CUCORE_EXPORT DriverNotFoundError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~DriverNotFoundError() override;
};

/// Thrown if an object is used after close(), or if its state does not allow the call.
class CUCORE_EXPORT InvalidStateError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
  ~InvalidStateError() override;
};

/// Returns the symbol of a driver result code, for example "CUDA_ERROR_INVALID_VALUE"; never null.
/// Does not load the driver.
[[nodiscard]] CUCORE_EXPORT const char* result_name(CUresult code) noexcept;
/// Returns a one-sentence description of a driver result code; never null. The text is the driver's
/// if one is loaded, and a built-in one otherwise.
[[nodiscard]] CUCORE_EXPORT const char* result_text(CUresult code) noexcept;

/// Throws the exception for a failed call: selects the class and builds the text, with the CPU
/// device's fault report if there is one. Out of line because it is called only on failure. `call`
/// is the function's name.
[[noreturn]] CUCORE_EXPORT void fail(CUresult code, const char* call);

/// Throws as fail() does unless `code` is CUDA_SUCCESS.
inline void check(CUresult code, const char* call) {
  if (code != CUDA_SUCCESS) [[unlikely]]
    fail(code, call);
}

}  // namespace cucore

/// Calls a driver function and throws if it fails: CUCORE_CALL(cuStreamSynchronize(stream))
#define CUCORE_CALL(call) ::cucore::check(::cucore::driver().call, #call)
