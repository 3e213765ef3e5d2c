// SPDX-License-Identifier: Apache-2.0
// core/ptx_functions.hpp: the functions that a PTX module defines or declares external.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cucore::detail {

struct PtxFunctions {
  std::set<std::string, std::less<>> defined;   ///< with a body
  std::set<std::string, std::less<>> external;  ///< declared `.extern`
};

/// Returns the functions (not the kernels) of a module; none for text that is not PTX.
PtxFunctions functions_of_ptx(std::string_view ptx);

/// Returns the module with `.visible` linkage for the definitions and declarations of these
/// functions, so that other modules can link against them.
std::string make_functions_visible(std::string_view ptx,
                                   const std::set<std::string, std::less<>>& names);

}  // namespace cucore::detail
