// SPDX-License-Identifier: Apache-2.0
// core/ptx_functions.hpp: which functions a PTX module defines, and which it expects from others.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cucore::detail {

struct PtxFunctions {
  std::set<std::string, std::less<>> defined;   ///< with a body
  std::set<std::string, std::less<>> external;  ///< declared `.extern`
};

/// The functions (not the entries) of a module. Text that is no PTX has none.
PtxFunctions functions_of_ptx(std::string_view ptx);

/// The module with `.visible` on the definitions and declarations of these functions, so that other
/// modules can be linked with them.
std::string make_functions_visible(std::string_view ptx,
                                   const std::set<std::string, std::less<>>& names);

}  // namespace cucore::detail
