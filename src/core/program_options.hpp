// SPDX-License-Identifier: Apache-2.0
// The options of a program as a table: field, its name in Python, and its flag for each compiler.
#pragma once

#include <span>
#include <variant>

#include "cucore/program.hpp"

namespace cucore::detail {

/// How a field becomes an NVRTC flag.
enum class FlagForm {
  none,       ///< no flag of its own
  when_true,  ///< "--flag" when true
  boolean,    ///< "--flag=true" or "--flag=false"
  value,      ///< "--flag=VALUE", once per value
};

/// What NVVM makes of it.
enum class NvvmForm {
  refused,  ///< an error when it would be an NVRTC flag
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
  const char* name;  ///< in Python
  OptionMember member;
  FlagForm form;
  const char* flag;
  NvvmForm nvvm = NvvmForm::refused;
  const char* nvvm_flag = "";
};

/// Every field but name, arch and extra_sources, in the order of the struct.
CUCORE_EXPORT std::span<const OptionField> option_fields();

/// "sm_90" of the current device (device 0 where the thread has none).
std::string arch_of_current_device();
/// The device's arch, or nothing where there is no device.
CUCORE_EXPORT std::optional<std::string> arch_if_any();

}  // namespace cucore::detail
