// SPDX-License-Identifier: Apache-2.0
// linker_options.cpp: builds nvJitLink's command line.
#include "core/program_options.hpp"
#include "cucore/linker.hpp"

namespace cucore {

std::vector<std::string> LinkerOptions::flags() const {
  std::vector<std::string> flags;
  const auto when_true = [&](const Flag& value, const char* flag) {
    if (value.value_or(false)) flags.emplace_back(flag);
  };
  const auto boolean = [&](const Flag& value, const char* flag) {
    if (value) flags.push_back(std::string{flag} + (*value ? "=true" : "=false"));
  };
  const auto number = [&](const Number& value, const char* flag) {
    if (value) flags.push_back(flag + std::to_string(*value));
  };
  const auto each = [&](const Texts& values, const char* flag) {
    for (const auto& value : values) flags.push_back(flag + value);
  };
  const std::string target = arch ? *arch : detail::arch_if_any().value_or("");
  if (!target.empty()) flags.push_back("-arch=" + target);
  number(max_register_count, "-maxrregcount=");
  when_true(time, "-time");
  when_true(verbose, "-verbose");
  when_true(link_time_optimization, "-lto");
  when_true(ptx, "-ptx");
  number(optimization_level, "-O");
  when_true(debug, "-g");
  when_true(lineinfo, "-lineinfo");
  boolean(ftz, "-ftz");
  boolean(prec_div, "-prec-div");
  boolean(prec_sqrt, "-prec-sqrt");
  boolean(fma, "-fma");
  each(kernels_used, "-kernels-used=");
  each(variables_used, "-variables-used=");
  when_true(optimize_unused_variables, "-optimize-unused-variables");
  each(ptxas_options, "-Xptxas=");
  number(split_compile, "-split-compile=");
  number(split_compile_extended, "-split-compile-extended=");
  when_true(no_cache, "-no-cache");
  return flags;
}

}  // namespace cucore
