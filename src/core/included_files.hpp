// SPDX-License-Identifier: Apache-2.0
// included_files.hpp: the files on disk that the compilation of a C++ source depends on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/program.hpp"

namespace cucore::detail {

/// Returns every path at which the compiler may look for a file that the source includes, directly
/// or indirectly. The paths depend neither on macros nor on the search order: directives in
/// inactive #if groups count, and so do paths after the first match. Returns std::nullopt if the
/// paths are unknown: a macro expands to a file name, the text uses the date or time, or there are
/// too many paths.
std::optional<std::vector<std::string>> places_of_included_files(
    std::string_view code, const ProgramOptions& options, const std::vector<std::string>& folders);

/// Returns a digest of these paths: the contents of each file, or that it does not exist.
std::string digest_of_files(const std::vector<std::string>& places);

}  // namespace cucore::detail
