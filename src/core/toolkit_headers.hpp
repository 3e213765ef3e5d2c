// SPDX-License-Identifier: Apache-2.0
// Headers of the CUDA toolkit that a C++ program includes: completes the folders it was given, and
// says what to install when a header is nowhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::detail {

/// The folder to append to the include folders of `flags` so that the runtime's headers in them
/// find the compiler's (crt/), which CUDA's wheels ship in a package of their own. Nothing when no
/// folder holds the runtime's headers or one holds the compiler's too; `search` is asked otherwise.
std::optional<std::string> folder_to_add(const std::vector<std::string>& flags,
                                         const std::function<std::optional<std::string>()>& search);

/// For a log that ends in a header that could not be opened: which package brings it. Empty for
/// headers that are not the toolkit's.
std::string hint_for_missing_header(std::string_view log);

}  // namespace cucore::detail
