// SPDX-License-Identifier: Apache-2.0
// cucore/linker.hpp: links object code into a cubin or PTX.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"

namespace cucore {

/// Link options. An unset option has the linker's default. Names and meanings are nvJitLink's;
/// `flags()` returns the resulting command line.
struct CUCORE_EXPORT LinkerOptions {
  using Flag = std::optional<bool>;
  using Number = std::optional<int>;
  using Texts = std::vector<std::string>;

  std::string name = "<default linker>";
  std::optional<std::string> arch{};  ///< for example "sm_90"; unset: the current device's
  Number max_register_count{};
  Flag time{};
  Flag verbose{};
  Flag link_time_optimization{};
  Flag ptx{};  ///< -ptx: emit PTX; for link_time_optimization with target "ptx"
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

  /// Returns the command line for nvJitLink.
  [[nodiscard]] std::vector<std::string> flags() const;
};

/// Links object code with nvJitLink if it is installed, otherwise with the driver. For the CPU
/// device nvJitLink generates only PTX; the driver links all other code. Single-use: link() can be
/// called once. Copies share one state. Thread-safe.
class CUCORE_EXPORT Linker {
 public:
  /// Throws std::invalid_argument if `inputs` is empty or `options.arch` is not an architecture.
  Linker(std::vector<ObjectCode> inputs, LinkerOptions options = {});

  /// Links to a cubin or to PTX, which requires LTO-IR inputs. Throws CUDAError with the linker's
  /// log if linking fails, InvalidStateError if the linker is closed or has already linked, and
  /// std::invalid_argument for another target.
  [[nodiscard]] ObjectCode link(CodeType target);
  /// Returns the linker's error log; empty before link().
  [[nodiscard]] std::string get_error_log() const;
  /// Returns the linker's informational log; empty before link().
  [[nodiscard]] std::string get_info_log() const;
  /// Returns the linker's handle (nvJitLinkHandle or CUlinkState), or null before link() and after
  /// close().
  [[nodiscard]] void* handle() const noexcept;
  /// Returns the back end of the last link; before link(), which_backend().
  [[nodiscard]] CompilerBackend backend() const noexcept;
  /// Returns nvJitLink if it is installed, otherwise the driver.
  [[nodiscard]] static CompilerBackend which_backend();
  /// Destroys the linker's handle; the logs stay available. Idempotent.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept;  ///< Returns whether close() was called.

  class Implementation;

 private:
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace cucore
