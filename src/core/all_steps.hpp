// SPDX-License-Identifier: Apache-2.0
// all_steps.hpp: cleanup that continues when a step fails.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "cucore/error.hpp"

namespace cucore::detail {

/// Collects what fails in a row of driver calls that are all made.
class AllSteps {
 public:
  /// One of the calls, after it was made.
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
  /// Throws the first error, with the later ones as its notes.
  void end() {
    if (first_ == nullptr) return;
    try {
      std::rethrow_exception(first_);
    } catch (CUDAError& error) {
      for (std::string& text : later_) error.add_note(std::move(text));
      throw;
    }
  }
  /// Notes all errors on the one that made cleaning up necessary.
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
