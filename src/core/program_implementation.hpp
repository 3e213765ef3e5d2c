// SPDX-License-Identifier: Apache-2.0
// What the three kinds of programs share.
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

  /// The lock is held and the program is open.
  virtual ObjectCode compile(CodeType target, std::span<const std::string> name_expressions,
                             std::string& log) = 0;
  virtual CompilerBackend backend() const noexcept = 0;
  virtual SourceType source_type() const noexcept = 0;
  virtual void release() noexcept = 0;  ///< frees the compiler's state; the lock is held
  virtual void* handle() = 0;           ///< the compiler's; the lock is held

  cucore::detail::Mutex mutex;  ///< calls on one program take turns
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

/// What of a program's options means something to a linker.
LinkerOptions linker_options(const ProgramOptions& options);

/// True when the CPU device runs the code. Loads the driver; false where no driver can be loaded.
CUCORE_EXPORT bool code_runs_on_the_cpu_device();
[[noreturn]] void refuse_target(CodeType target, SourceType source, const char* supported);

}  // namespace detail
}  // namespace cucore
