// SPDX-License-Identifier: Apache-2.0
// program_options.hpp: the table of program options: field, Python name, and flag for each
// compiler.
#pragma once

#include <span>
#include <variant>

#include "cucore/program.hpp"

namespace cucore::detail {

/// How a field is converted to an NVRTC flag.
enum class FlagForm {
  none,       ///< no flag
  when_true,  ///< "--flag" if true
  boolean,    ///< "--flag=true" or "--flag=false"
  value,      ///< "--flag=VALUE", once per value
};

/// How a field is converted to an NVVM flag.
enum class NvvmForm {
  refused,  ///< an error if it would be an NVRTC flag
  ignored,
  number,     ///< "-flag=1" or "-flag=0"
  when_true,  ///< "-flag"
  opt,        ///< "-opt=3" or "-opt=0"
};

using OptionMember =
    std::variant<ProgramOptions::Flag ProgramOptions::*, ProgramOptions::Number ProgramOptions::*,
                 ProgramOptions::Text ProgramOptions::*, ProgramOptions::Texts ProgramOptions::*,
                 ProgramOptions::Numbers ProgramOptions::*>;

struct OptionField {
  const char* name;  ///< Python name
  OptionMember member;
  FlagForm form;
  const char* flag;
  NvvmForm nvvm = NvvmForm::refused;
  const char* nvvm_flag = "";
};

/// All fields except name, arch and extra_sources, in the order of the struct.
CUCORE_EXPORT std::span<const OptionField> option_fields();

/// Returns the architecture of the current device, for example "sm_90", or of device 0 if there is
/// none.
std::string arch_of_current_device();
/// Returns the current device's architecture, or std::nullopt if there is no device.
CUCORE_EXPORT std::optional<std::string> arch_if_any();

}  // namespace cucore::detail
