// SPDX-License-Identifier: Apache-2.0
// cucore/program.hpp: source code (C++, PTX, NVVM IR) and its compilation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/object_code.hpp"

namespace cucore {

enum class SourceType { cxx, ptx, nvvm };                       ///< The language of a program.
enum class CompilerBackend { nvrtc, nvvm, nvjitlink, driver };  ///< Who compiles or links.
enum class PCHStatus { created, not_attempted, failed };  ///< What became of a precompiled header.

/// "c++", "ptx", "nvvm" and back, whatever the case. Throws std::invalid_argument.
[[nodiscard]] CUCORE_EXPORT SourceType source_type_of(std::string_view name);
/// "NVRTC", "NVVM", "nvJitLink" or "driver".
[[nodiscard]] CUCORE_EXPORT const char* backend_name(CompilerBackend backend) noexcept;

/// How a program is compiled. An option that is not set takes the compiler's default. Names and
/// meanings are the compiler's (NVRTC's user guide describes each); `flags()` shows what they
/// become.
struct CUCORE_EXPORT ProgramOptions {
  using Flag = std::optional<bool>;
  using Number = std::optional<int>;
  using Text = std::optional<std::string>;
  using Texts = std::vector<std::string>;
  using Numbers = std::vector<int>;

  std::string name = "default_program";  ///< how messages call the source
  Text arch{};                           ///< "sm_90"; default: the current device's
  Flag relocatable_device_code{};
  Flag extensible_whole_program{};
  Flag debug{};
  Flag lineinfo{};
  Flag device_code_optimize{};
  Texts ptxas_options{};
  Number max_register_count{};
  Flag ftz{};
  Flag prec_sqrt{};
  Flag prec_div{};
  Flag fma{};
  Flag use_fast_math{};
  Flag extra_device_vectorization{};
  Flag link_time_optimization{};
  Flag gen_opt_lto{};
  Texts define_macro{};  ///< "NAME" or "NAME=VALUE"
  Texts undefine_macro{};
  Texts include_path{};
  Flag use_bundled_headers{};  ///< the headers that come with NVRTC 13.3 and later
  Texts pre_include{};
  Flag no_source_include{};
  Text std{};
  Flag builtin_move_forward{};
  Flag builtin_initializer_list{};
  Flag disable_warnings{};
  Flag restrict_pointers{};  ///< `restrict` in Python
  Flag device_as_default_execution_space{};
  Flag device_int128{};
  Text optimization_info{};
  Flag no_display_error_number{};
  Numbers diag_error{};
  Numbers diag_suppress{};
  Numbers diag_warn{};
  Flag brief_diagnostics{};
  Text time{};
  Number split_compile{};
  Flag fdevice_syntax_only{};
  Flag minimal{};
  Flag no_cache{};
  Text fdevice_time_trace{};
  Flag device_float128{};
  Text frandom_seed{};
  Text ofast_compile{};
  Flag pch{};
  Text create_pch{};
  Text use_pch{};
  Text pch_dir{};
  Flag pch_verbose{};
  Flag pch_messages{};
  Flag instantiate_templates_in_pch{};
  std::vector<std::pair<std::string, std::string>>
      extra_sources{};   ///< (name, text): NVVM modules; headers of C++
  Flag use_libdevice{};  ///< NVVM: link NVIDIA's math library
  Flag numba_debug{};

  /// The compiler's command line. `target` matters to NVVM ("ltoir"). An unset `arch` is the
  /// current device's, or none when there is no device. Throws std::invalid_argument when a set
  /// option means nothing to the back end.
  [[nodiscard]] std::vector<std::string> flags(CompilerBackend backend,
                                               std::optional<CodeType> target = std::nullopt) const;
};

/// A program in source form. Compiling creates no context and may run on several threads for
/// different programs; calls on one program take turns.
class CUCORE_EXPORT Program {
 public:
  /// Throws std::invalid_argument for options that the language does not have.
  Program(std::string code, SourceType type, ProgramOptions options = {});

  /// Compiles to PTX, cubin or LTO-IR. `name_expressions` are C++ names ("add<float>") that must be
  /// compiled and found again by get_kernel. `log` receives what the compiler says, also after
  /// success. Throws NVRTCError or CUDAError with the log. On the CPU device a cubin is a container
  /// (cucore/container.hpp): it also holds the PTX that runs there. What NVRTC made of C++ is kept
  /// in the user's cache folder (CUCORE_COMPILE_CACHE=0: not) and taken from there while source,
  /// options, included files and compiler are the same.
  [[nodiscard]] ObjectCode compile(CodeType target,
                                   std::span<const std::string> name_expressions = {},
                                   std::string* log = nullptr);
  /// The same for PTX programs, under the name that fits.
  [[nodiscard]] ObjectCode link(CodeType target, std::string* log = nullptr) {
    return compile(target, {}, log);
  }

  [[nodiscard]] CompilerBackend backend() const noexcept;        ///< who compiles it
  [[nodiscard]] SourceType source_type() const noexcept;         ///< its language
  [[nodiscard]] const ProgramOptions& options() const noexcept;  ///< how it is compiled
  /// The compiler's handle (nvrtcProgram, nvvmProgram); null once closed, and for PTX. A C++
  /// program whose last result came from the compile cache is compiled now, so that the handle has
  /// it.
  [[nodiscard]] void* handle() const;
  /// What became of the precompiled header of the last compilation; nothing when none was asked
  /// for.
  [[nodiscard]] std::optional<PCHStatus> pch_status() const noexcept;
  /// Frees the compiler's state. Idempotent; compile() then throws InvalidStateError.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept;  ///< after close()

  class Implementation;

 private:
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace cucore
