// SPDX-License-Identifier: Apache-2.0
// program_implementation.hpp: the interface of the three kinds of programs.
#pragma once

#include <atomic>
#include <mutex>

#include "cucore/linker.hpp"
#include "cucore/program.hpp"
#include "driver/mutex.hpp"

namespace cucore {

class Program::Implementation {
 public:
  Implementation(std::string code, ProgramOptions options)
      : code_{std::move(code)}, options_{std::move(options)} {}
  virtual ~Implementation() = default;

  /// Requires the lock and an open program.
  virtual ObjectCode compile(CodeType target, std::span<const std::string> name_expressions,
                             std::string& log) = 0;
  virtual CompilerBackend backend() const noexcept = 0;
  virtual SourceType source_type() const noexcept = 0;
  virtual void release() noexcept = 0;  ///< frees the compiler's state; requires the lock
  virtual void* handle() = 0;           ///< the compiler's program; requires the lock

  cucore::detail::Mutex mutex;  ///< serializes calls on one program
  std::atomic<bool> closed{false};
  std::optional<PCHStatus> pch_status;

  const ProgramOptions& options() const noexcept { return options_; }

 protected:
  std::string code_;
  ProgramOptions options_;
};

namespace detail {

std::shared_ptr<Program::Implementation> make_nvrtc_program(std::string code,
                                                            ProgramOptions options);
std::shared_ptr<Program::Implementation> make_nvvm_program(std::string code,
                                                           ProgramOptions options);
std::shared_ptr<Program::Implementation> make_ptx_program(std::string code, ProgramOptions options);

/// Returns the program options that apply to a linker.
LinkerOptions linker_options(const ProgramOptions& options);

/// Returns whether code runs on the CPU device. Loads the driver; false if no driver can be loaded.
CUCORE_EXPORT bool code_runs_on_the_cpu_device();
[[noreturn]] void refuse_target(CodeType target, SourceType source, const char* supported);

}  // namespace detail
}  // namespace cucore
