// SPDX-License-Identifier: Apache-2.0
// error_collector.hpp: cleanup that continues when a step fails.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "cucore/error.hpp"

namespace cucore::detail {

/// Collects the errors of a sequence of driver calls that are all made, even if some fail.
class ErrorCollector {
 public:
  /// Records the result of one call.
  void step(CUresult code, const char* call) {
    if (code == CUDA_SUCCESS) return;
    try {
      fail(code, call);
    } catch (const CUDAError& error) {
      if (first_ == nullptr)
        first_ = std::current_exception();
      else
        later_.push_back(note(error));
    }
  }
  /// Throws the first error with the later ones attached as notes. No-op if all calls succeeded.
  void end() {
    if (first_ == nullptr) return;
    try {
      std::rethrow_exception(first_);
    } catch (CUDAError& error) {
      for (std::string& text : later_) error.add_note(std::move(text));
      throw;
    }
  }
  /// Attaches all collected errors as notes to `error`, the error that caused the cleanup.
  void attach_to(CUDAError& error) {
    if (first_ == nullptr) return;
    try {
      std::rethrow_exception(first_);
    } catch (const CUDAError& mine) {
      error.add_note(note(mine));
    }
    for (std::string& text : later_) error.add_note(std::move(text));
  }

 private:
  static std::string note(const CUDAError& error) {
    return std::string{"while cleaning up: CUDAError: "} + error.what();
  }
  std::exception_ptr first_;
  std::vector<std::string> later_;
};

}  // namespace cucore::detail
