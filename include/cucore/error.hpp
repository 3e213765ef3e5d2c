// SPDX-License-Identifier: Apache-2.0
// cucore/error.hpp: failed calls as exceptions that keep the result code as a value.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// A call into CUDA failed. `code()` is the library's result code (a CUresult for the driver),
/// `name()` its symbol, `call()` the function that failed and `object()` what it was called with.
class CUCORE_EXPORT CUDAError : public std::runtime_error {
 public:
  /// `text` is what() says; `call` and `object` may be empty.
  CUDAError(int code, std::string name, const std::string& text, std::string call = {},
            std::string object = {});
  /// The same error with more text, and with an object where it has none yet.
  CUDAError(const CUDAError& error, const std::string& text, std::string object = {});
  CUDAError(const CUDAError&) = default;
  CUDAError& operator=(const CUDAError&) = default;
  ~CUDAError() override;
  [[nodiscard]] int code() const noexcept { return code_; }  ///< the library's result code
  /// the symbol of the code
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// the function that failed, "cuLaunchKernel"; empty where no single function did
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  /// what it was called with, "kernel saxpy"; empty where that is unknown
  [[nodiscard]] const std::string& object() const noexcept { return object_; }
  /// What failed while cleaning up after this error, in order: the first error is the one thrown.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Adds a note.
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

 private:
  int code_;
  std::string name_;
  std::string call_;
  std::string object_;
  std::vector<std::string> notes_;
};

/// The device has no room for an allocation (CUDA_ERROR_OUT_OF_MEMORY). The context stays usable.
class CUCORE_EXPORT OutOfMemoryError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~OutOfMemoryError() override;
};

/// The runtime compiler failed; the text carries its log.
class CUCORE_EXPORT NVRTCError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~NVRTCError() override;
};

/// A call of NVML failed; code() is an nvmlReturn_t, name() its symbol.
class CUCORE_EXPORT NVMLError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~NVMLError() override;
};

/// The driver library, or a function of it, is not there. The text lists what was tried.
class CUCORE_EXPORT DriverNotFoundError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~DriverNotFoundError() override;
};

/// An object was used after close(), or a call came in a state that does not allow it.
class CUCORE_EXPORT InvalidStateError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
  ~InvalidStateError() override;
};

/// The symbol of a driver result, "CUDA_ERROR_INVALID_VALUE"; never null. Needs no driver.
[[nodiscard]] CUCORE_EXPORT const char* result_name(CUresult code) noexcept;
/// One sentence about a driver result; never null. The driver's own words where one is loaded.
[[nodiscard]] CUCORE_EXPORT const char* result_text(CUresult code) noexcept;

/// Throws the exception for a failed call. Cold: picks the class and builds the text, with the CPU
/// device's fault report where there is one. `call` is the function's name.
[[noreturn]] CUCORE_EXPORT void fail(CUresult code, const char* call);

/// Throws what fail() throws unless the call succeeded.
inline void check(CUresult code, const char* call) {
  if (code != CUDA_SUCCESS) [[unlikely]]
    fail(code, call);
}

}  // namespace cucore

/// Calls a driver function and throws on failure: CUCORE_CALL(cuStreamSynchronize(stream))
#define CUCORE_CALL(call) ::cucore::check(::cucore::driver().call, #call)
