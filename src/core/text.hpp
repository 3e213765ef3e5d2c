// SPDX-License-Identifier: Apache-2.0
// text.hpp: formats numbers and names for messages.
#pragma once

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace cucore::detail {

/// Formats a number as "0x7f00".
inline std::string hexadecimal(unsigned long long number) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", number);
  return text;
}

/// Returns the demangled C++ declaration of a symbol, or an empty string if it is not mangled.
inline std::string demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return {};
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> text{
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free};
  return status == 0 && text != nullptr ? text.get() : "";
}

}  // namespace cucore::detail
