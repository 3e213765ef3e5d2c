// SPDX-License-Identifier: Apache-2.0
// register_limit.cpp: the limit of registers in PTX. Part of the library and of the CPU device.
#include <algorithm>

#include "cucore/container.hpp"

namespace cucore {

std::string limit_registers(std::string_view ptx, unsigned registers) {
  std::string out;
  std::size_t copied = 0;   // offset in `ptx` up to which `out` is complete
  bool in_entry = false;    // between ".entry" and its body
  bool has_bounds = false;  // the kernel has performance directives, which override the option
  const auto starts = [&](std::size_t at, std::string_view word) {
    return ptx.substr(at, word.size()) == word;
  };
  for (std::size_t at = 0; at < ptx.size(); ++at) {
    if (starts(at, "//")) {
      at = std::min(ptx.find('\n', at), ptx.size());
    } else if (starts(at, "/*")) {
      at = std::min(ptx.find("*/", at + 2), ptx.size() - 1);
    } else if (ptx[at] == '"') {
      for (++at; at < ptx.size() && ptx[at] != '"'; ++at)
        if (ptx[at] == '\\') ++at;
    } else if (starts(at, ".entry")) {
      in_entry = true;
      has_bounds = false;
    } else if (in_entry && (starts(at, ".maxnreg") || starts(at, ".maxntid") ||
                            starts(at, ".reqntid") || starts(at, ".minnctapersm"))) {
      has_bounds = true;
    } else if (in_entry && (ptx[at] == '{' || ptx[at] == ';')) {
      if (ptx[at] == '{' && !has_bounds) {
        out.append(ptx.substr(copied, at - copied));
        out += ".maxnreg " + std::to_string(registers) + " ";
        copied = at;
      }
      in_entry = false;
    }
  }
  return out.append(ptx.substr(copied));
}

}  // namespace cucore
