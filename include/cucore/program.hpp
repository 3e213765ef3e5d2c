// SPDX-License-Identifier: Apache-2.0
// cucore/program.hpp: programs in source form (C++, PTX, NVVM IR) and their compilation.
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

enum class SourceType { cxx, ptx, nvvm };                       ///< Source language of a program.
enum class CompilerBackend { nvrtc, nvvm, nvjitlink, driver };  ///< Compiler or linker.
enum class PCHStatus { created, not_attempted, failed };        ///< Status of a precompiled header.

/// Returns the source language with this name ("c++", "ptx" or "nvvm"), which is case-insensitive.
/// Throws std::invalid_argument for any other name.
[[nodiscard]] CUCORE_EXPORT SourceType source_type_of(std::string_view name);
/// Returns "NVRTC", "NVVM", "nvJitLink" or "driver".
[[nodiscard]] CUCORE_EXPORT const char* backend_name(CompilerBackend backend) noexcept;

/// Compile options. An unset option has the compiler's default. Names and meanings are the
/// compiler's (see the NVRTC user guide); `flags()` returns the resulting command line.
struct CUCORE_EXPORT ProgramOptions {
  using Flag = std::optional<bool>;
  using Number = std::optional<int>;
  using Text = std::optional<std::string>;
  using Texts = std::vector<std::string>;
  using Numbers = std::vector<int>;

  std::string name = "default_program";  ///< name of the source in messages
  Text arch{};                           ///< for example "sm_90"; unset: the current device's
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
  Flag use_bundled_headers{};  ///< use the headers bundled with NVRTC 13.3 and later
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
      extra_sources{};   ///< (name, text): modules of NVVM programs, headers of C++ programs
  Flag use_libdevice{};  ///< NVVM programs: link libdevice, NVIDIA's math library
  Flag numba_debug{};

  /// Returns the compiler's command line. `target` affects NVVM only (LTO-IR). An unset `arch` is
  /// that of the current device, or is omitted if there is no device. Throws std::invalid_argument
  /// if the back end does not support an option that is set.
  [[nodiscard]] std::vector<std::string> flags(CompilerBackend backend,
                                               std::optional<CodeType> target = std::nullopt) const;
};

/// A program in source form. Compilation creates no context. Thread-safe: different programs
/// compile concurrently, and calls on one program are serialized. Copies share one state.
class CUCORE_EXPORT Program {
 public:
  /// Throws std::invalid_argument if the source language does not support an option that is set.
  Program(std::string code, SourceType type, ProgramOptions options = {});

  /// Compiles to PTX, cubin or LTO-IR. `name_expressions` are C++ names, for example "add<float>",
  /// to compile; ObjectCode::get_kernel() accepts them. `log` receives the compiler's log if the
  /// compilation succeeds. Throws NVRTCError or CUDAError with the log. For the CPU device a cubin
  /// is a container (cucore/container.hpp), which includes the PTX that runs there. Results of
  /// NVRTC are cached in the user's cache folder and reused while source, options, included files
  /// and compiler are unchanged; CUCORE_COMPILE_CACHE=0 disables the cache.
  [[nodiscard]] ObjectCode compile(CodeType target,
                                   std::span<const std::string> name_expressions = {},
                                   std::string* log = nullptr);
  /// Equivalent to compile() without name expressions; the usual name for PTX programs.
  [[nodiscard]] ObjectCode link(CodeType target, std::string* log = nullptr) {
    return compile(target, {}, log);
  }

  [[nodiscard]] CompilerBackend backend() const noexcept;        ///< Returns the compiler.
  [[nodiscard]] SourceType source_type() const noexcept;         ///< Returns the source language.
  [[nodiscard]] const ProgramOptions& options() const noexcept;  ///< Returns the compile options.
  /// Returns the compiler's handle (nvrtcProgram or nvvmProgram), or null after close() and for PTX
  /// programs. If the last result of a C++ program came from the compile cache, compiles the
  /// program, so that the handle has the result.
  [[nodiscard]] void* handle() const;
  /// Returns the status of the precompiled header of the last compilation, or std::nullopt if none
  /// was requested.
  [[nodiscard]] std::optional<PCHStatus> pch_status() const noexcept;
  /// Destroys the compiler's handle; compile() then throws InvalidStateError. Idempotent.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept;  ///< Returns whether close() was called.

  class Implementation;

 private:
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace cucore
