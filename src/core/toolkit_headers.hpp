// SPDX-License-Identifier: Apache-2.0
// toolkit_headers.hpp: CUDA toolkit headers that a C++ program includes: completes the include
// folders, and names the package to install if a header is missing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::detail {

/// Returns the folder to append to the include folders in `flags` so that the runtime's headers
/// find the compiler's (crt/), which CUDA's wheels ship in a separate package. Returns std::nullopt
/// if no folder contains the runtime's headers or if one also contains the compiler's. Otherwise
/// returns the result of `search`.
std::optional<std::string> folder_to_add(const std::vector<std::string>& flags,
                                         const std::function<std::optional<std::string>()>& search);

/// Returns a note with the package that contains the header which, according to the log, could not
/// be opened. Empty for headers that are not part of the toolkit.
std::string hint_for_missing_header(std::string_view log);

}  // namespace cucore::detail
