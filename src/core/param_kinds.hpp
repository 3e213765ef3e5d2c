// SPDX-License-Identifier: Apache-2.0
// What the parameters of a kernel are (integer, floating point, pointer), read from PTX or from a
// mangled C++ name. The driver knows sizes and offsets only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/kernel.hpp"

namespace cucore::detail {

/// One parameter as its declaration gives it.
struct DeclaredParam {
  ParamKind kind = ParamKind::unknown;
  std::size_t size = 0;  ///< in bytes; 0 where the declaration does not tell
  std::string name;      ///< as in the source; empty where a compiler made it up
  friend bool operator==(const DeclaredParam&, const DeclaredParam&) = default;
};

/// The parameters of each kernel of a PTX module, by the kernel's symbol.
using DeclaredParams = std::map<std::string, std::vector<DeclaredParam>, std::less<>>;

/// Adds the kernels of a PTX module. A declaration that cannot be read adds nothing: the size then
/// is all that a launch checks.
void add_params_of_ptx(std::string_view ptx, DeclaredParams& params);

/// The parameters that a mangled C++ name (Itanium ABI) tells; none for other names.
std::vector<DeclaredParam> params_of_mangled_name(const std::string& symbol);

/// Writes the declared kinds and names into the table that the driver gave and into `names`; what
/// is not known by this declaration stays, so that several can be applied, the best one last.
/// Nothing is written where count or sizes differ: the declaration is then another kernel's.
bool apply_declaration(const std::vector<DeclaredParam>& declared, std::vector<ParamInfo>& params,
                       std::vector<std::string>& names);

/// "float", "double", "a pointer", "a 4-byte integer": for messages.
std::string describe_param(const ParamInfo& param);

}  // namespace cucore::detail
