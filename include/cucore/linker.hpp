// SPDX-License-Identifier: Apache-2.0
// cucore/linker.hpp: joins pieces of compiled code into one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"

namespace cucore {

/// How code is linked. An option that is not set takes the linker's default.
struct CUCORE_EXPORT LinkerOptions {
  using Flag = std::optional<bool>;
  using Number = std::optional<int>;
  using Texts = std::vector<std::string>;

  std::string name = "<default linker>";
  std::optional<std::string> arch{};  ///< "sm_90"; default: the current device's
  Number max_register_count{};
  Flag time{};
  Flag verbose{};
  Flag link_time_optimization{};
  Flag ptx{};  ///< keep PTX: with link_time_optimization and target "ptx"
  Number optimization_level{};
  Flag debug{};
  Flag lineinfo{};
  Flag ftz{};
  Flag prec_div{};
  Flag prec_sqrt{};
  Flag fma{};
  Texts kernels_used{};
  Texts variables_used{};
  Flag optimize_unused_variables{};
  Texts ptxas_options{};
  Number split_compile{};
  Number split_compile_extended{};
  Flag no_cache{};
  Flag numba_debug{};

  /// nvJitLink's command line.
  [[nodiscard]] std::vector<std::string> flags() const;
};

/// Links object codes. nvJitLink does it where it is installed, else the driver; what nvJitLink
/// cannot make for the CPU device the driver links there. A linker is used once: after link() only
/// its logs and close() are of use.
class CUCORE_EXPORT Linker {
 public:
  /// Throws std::invalid_argument without inputs.
  Linker(std::vector<ObjectCode> inputs, LinkerOptions options = {});

  /// Makes "cubin" or "ptx" (the latter needs LTO-IR inputs). Throws CUDAError with the linker's
  /// log.
  [[nodiscard]] ObjectCode link(CodeType target);
  /// What the linker said; empty before link().
  [[nodiscard]] std::string get_error_log() const;
  [[nodiscard]] std::string get_info_log() const;  ///< the same for what is no error
  /// The linker's handle (nvJitLinkHandle, CUlinkState) once linked; null when closed.
  [[nodiscard]] void* handle() const noexcept;
  [[nodiscard]] CompilerBackend backend() const noexcept;  ///< who links
  /// What a linker would use: nvJitLink where it is installed, else the driver.
  [[nodiscard]] static CompilerBackend which_backend();
  /// Idempotent.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept;  ///< after close()

  class Implementation;

 private:
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace cucore
