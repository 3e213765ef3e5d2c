// SPDX-License-Identifier: Apache-2.0
// included_files.hpp: the files on disk that decide what a C++ source is compiled to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/program.hpp"

namespace cucore::detail {

/// Every place where the compiler may look for a file that a source, or a file that it includes,
/// names. The places do not depend on macros or on the order of the search: directives that #if
/// leaves out count, and so do places after the first one that has the file. Nothing where they are
/// unknown: a macro gives the name of a file, the text uses the date or the time, or there are too
/// many places.
std::optional<std::vector<std::string>> places_of_included_files(
    std::string_view code, const ProgramOptions& options, const std::vector<std::string>& folders);

/// A digest of what is at these places: the content of each file, or that there is none.
std::string digest_of_files(const std::vector<std::string>& places);

}  // namespace cucore::detail
