// SPDX-License-Identifier: Apache-2.0
// program_options.cpp: the option table, and the command lines built from it.
#include "core/program_options.hpp"

#include "core/debug_source.hpp"
#include "core/library.hpp"
#include "core/nvrtc.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace detail {
namespace {

using O = ProgramOptions;
using enum FlagForm;

// clang-format off
const OptionField kFields[] = {
    {"relocatable_device_code",      &O::relocatable_device_code,      boolean,   "--relocatable-device-code"},
    {"extensible_whole_program",     &O::extensible_whole_program,     when_true, "--extensible-whole-program"},
    {"debug",                        &O::debug,                        when_true, "--device-debug", NvvmForm::when_true, "-g"},
    {"lineinfo",                     &O::lineinfo,                     when_true, "--generate-line-info"},
    {"device_code_optimize",         &O::device_code_optimize,         when_true, "--dopt=on", NvvmForm::opt, "-opt"},
    {"ptxas_options",                &O::ptxas_options,                value,     "--ptxas-options"},
    {"max_register_count",           &O::max_register_count,           value,     "--maxrregcount"},
    {"ftz",                          &O::ftz,                          boolean,   "--ftz", NvvmForm::number, "-ftz"},
    {"prec_sqrt",                    &O::prec_sqrt,                    boolean,   "--prec-sqrt", NvvmForm::number, "-prec-sqrt"},
    {"prec_div",                     &O::prec_div,                     boolean,   "--prec-div", NvvmForm::number, "-prec-div"},
    {"fma",                          &O::fma,                          boolean,   "--fmad", NvvmForm::number, "-fma"},
    {"use_fast_math",                &O::use_fast_math,                when_true, "--use_fast_math"},
    {"extra_device_vectorization",   &O::extra_device_vectorization,   when_true, "--extra-device-vectorization"},
    {"link_time_optimization",       &O::link_time_optimization,       when_true, "--dlink-time-opt", NvvmForm::ignored},
    {"gen_opt_lto",                  &O::gen_opt_lto,                  when_true, "--gen-opt-lto"},
    {"define_macro",                 &O::define_macro,                 value,     "--define-macro"},
    {"undefine_macro",               &O::undefine_macro,               value,     "--undefine-macro"},
    {"include_path",                 &O::include_path,                 value,     "--include-path"},
    {"use_bundled_headers",          &O::use_bundled_headers,          none,      "", NvvmForm::ignored},
    {"pre_include",                  &O::pre_include,                  value,     "--pre-include"},
    {"no_source_include",            &O::no_source_include,            when_true, "--no-source-include"},
    {"std",                          &O::std,                          value,     "--std"},
    {"builtin_move_forward",         &O::builtin_move_forward,         boolean,   "--builtin-move-forward"},
    {"builtin_initializer_list",     &O::builtin_initializer_list,     boolean,   "--builtin-initializer-list"},
    {"disable_warnings",             &O::disable_warnings,             when_true, "--disable-warnings"},
    {"restrict",                     &O::restrict_pointers,            when_true, "--restrict"},
    {"device_as_default_execution_space", &O::device_as_default_execution_space, when_true, "--device-as-default-execution-space"},
    {"device_int128",                &O::device_int128,                when_true, "--device-int128"},
    {"optimization_info",            &O::optimization_info,            value,     "--optimization-info"},
    {"no_display_error_number",      &O::no_display_error_number,      when_true, "--no-display-error-number"},
    {"diag_error",                   &O::diag_error,                   value,     "--diag-error"},
    {"diag_suppress",                &O::diag_suppress,                value,     "--diag-suppress"},
    {"diag_warn",                    &O::diag_warn,                    value,     "--diag-warn"},
    {"brief_diagnostics",            &O::brief_diagnostics,            boolean,   "--brief-diagnostics"},
    {"time",                         &O::time,                         value,     "--time"},
    {"split_compile",                &O::split_compile,                value,     "--split-compile"},
    {"fdevice_syntax_only",          &O::fdevice_syntax_only,          when_true, "--fdevice-syntax-only"},
    {"minimal",                      &O::minimal,                      when_true, "--minimal"},
    {"no_cache",                     &O::no_cache,                     when_true, "--no-cache", NvvmForm::ignored},
    {"fdevice_time_trace",           &O::fdevice_time_trace,           value,     "--fdevice-time-trace", NvvmForm::ignored},
    {"device_float128",              &O::device_float128,              when_true, "--device-float128", NvvmForm::ignored},
    {"frandom_seed",                 &O::frandom_seed,                 value,     "--frandom-seed", NvvmForm::ignored},
    {"ofast_compile",                &O::ofast_compile,                value,     "--Ofast-compile", NvvmForm::ignored},
    {"pch",                          &O::pch,                          when_true, "--pch", NvvmForm::ignored},
    {"create_pch",                   &O::create_pch,                   value,     "--create-pch", NvvmForm::ignored},
    {"use_pch",                      &O::use_pch,                      value,     "--use-pch", NvvmForm::ignored},
    {"pch_dir",                      &O::pch_dir,                      value,     "--pch-dir", NvvmForm::ignored},
    {"pch_verbose",                  &O::pch_verbose,                  boolean,   "--pch-verbose", NvvmForm::ignored},
    {"pch_messages",                 &O::pch_messages,                 boolean,   "--pch-messages", NvvmForm::ignored},
    {"instantiate_templates_in_pch", &O::instantiate_templates_in_pch, boolean,   "--instantiate-templates-in-pch", NvvmForm::ignored},
    {"use_libdevice",                &O::use_libdevice,                none,      "", NvvmForm::ignored},
    {"numba_debug",                  &O::numba_debug,                  when_true, "--numba-debug", NvvmForm::when_true, "-numba-debug"},
};
// clang-format on

std::string text_of(const std::string& value) { return value; }
std::string text_of(int value) { return std::to_string(value); }

/// Returns the NVRTC flags of a field, or an empty list if it is not set.
std::vector<std::string> nvrtc_flags(const OptionField& field, const ProgramOptions& options) {
  std::vector<std::string> flags;
  const std::string flag = field.flag;
  std::visit(
      [&](auto member) {
        const auto& v = options.*member;
        using Value = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<Value, ProgramOptions::Flag>) {
          if (!v || field.form == none) return;
          if (field.form == boolean) flags.push_back(flag + (*v ? "=true" : "=false"));
          if (field.form == when_true && *v) flags.push_back(flag);
        } else if constexpr (std::is_same_v<Value, ProgramOptions::Number> ||
                             std::is_same_v<Value, ProgramOptions::Text>) {
          if (v) flags.push_back(flag + "=" + text_of(*v));
        } else {
          for (const auto& one : v) flags.push_back(flag + "=" + text_of(one));
        }
      },
      field.member);
  return flags;
}

bool flag_is(const OptionField& field, const ProgramOptions& options, std::optional<bool>& value) {
  value = options.*std::get<ProgramOptions::Flag ProgramOptions::*>(field.member);
  return value.has_value();
}

std::vector<std::string> nvvm_flags(const ProgramOptions& options, std::optional<CodeType> target,
                                    const std::string& arch) {
  std::vector<std::string> flags;
  std::string refused;
  if (!arch.empty()) {
    std::string name = arch;
    if (name.starts_with("sm_")) name.replace(0, 3, "compute_");
    flags.push_back("-arch=" + name);
  }
  for (const OptionField& field : kFields) {
    std::optional<bool> value;
    switch (field.nvvm) {
      case NvvmForm::refused:
        if (!nvrtc_flags(field, options).empty())
          refused += (refused.empty() ? "" : ", ") + std::string{field.name};
        break;
      case NvvmForm::ignored:
        break;
      case NvvmForm::number:
        if (flag_is(field, options, value))
          flags.push_back(std::string{field.nvvm_flag} + (*value ? "=1" : "=0"));
        break;
      case NvvmForm::when_true:
        if (flag_is(field, options, value) && *value) flags.emplace_back(field.nvvm_flag);
        break;
      case NvvmForm::opt:
        if (flag_is(field, options, value))
          flags.push_back(std::string{field.nvvm_flag} + (*value ? "=3" : "=0"));
        break;
    }
  }
  if (!refused.empty()) {
    throw CUDAError{0, "NVVM",
                    "The following options are not supported by NVVM backend: " + refused};
  }
  if (target == CodeType::ltoir) flags.emplace_back("-gen-lto");
  return flags;
}

}  // namespace

std::span<const OptionField> option_fields() { return kFields; }

std::string arch_of_current_device() {
  const CUdevice device = current_device_or_first();
  int major = 0;
  int minor = 0;
  CUCORE_CALL(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CUCORE_CALL(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

std::optional<std::string> arch_if_any() {
  try {
    return arch_of_current_device();
  } catch (const CUDAError&) {
    return std::nullopt;
  } catch (const DriverNotFoundError&) {
    return std::nullopt;
  }
}

}  // namespace detail

std::vector<std::string> ProgramOptions::flags(CompilerBackend backend,
                                               std::optional<CodeType> target) const {
  const std::string target_arch = arch ? *arch : detail::arch_if_any().value_or("");
  if (backend == CompilerBackend::nvvm) return detail::nvvm_flags(*this, target, target_arch);
  if (backend != CompilerBackend::nvrtc) {
    throw std::invalid_argument{std::string{"a program has flags for NVRTC and NVVM, not for "} +
                                backend_name(backend)};
  }
  std::vector<std::string> flags;
  if (!target_arch.empty()) flags.push_back("-arch=" + target_arch);
  for (const auto& field : detail::option_fields()) {
    for (auto& flag : detail::nvrtc_flags(field, *this)) flags.push_back(std::move(flag));
    // CUCORE_DEBUG enables debug information without a change to the program.
    if (field.member == detail::OptionMember{&ProgramOptions::debug} && !debug &&
        detail::debug_from_environment())
      flags.emplace_back(field.flag);
  }
  if (use_bundled_headers.value_or(false)) {
    for (const auto& folder : detail::bundled_header_folders())
      flags.push_back("--include-path=" + folder);
  }
  return flags;
}

}  // namespace cucore
