// SPDX-License-Identifier: Apache-2.0
// include_scan.hpp: finds the files that a C++ source includes or tests for.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::detail {

/// A directive or test in a source that makes the result of its compilation depend on a file.
struct FileUse {
  std::string text;  ///< as in the source: #include "file", #include NAME, __has_include("file")
  std::string file;  ///< the name between quotes or brackets; empty if a macro expands to it
  bool in_brackets = false;  ///< #include <file>, __has_include(<file>)
};

/// Returns all uses of files in a source. Comments and literals are ignored. Text in inactive #if
/// groups is included, because macros decide which groups are active.
std::vector<FileUse> all_uses_of_files(std::string_view source);

/// Macros that expand to __has_include: `#define HAS(X) __has_include(X)`, `#define HAS
/// __has_include`.
using HasIncludeMacros = std::set<std::string, std::less<>>;

/// Like all_uses_of_files(), but HAS(<file>) also counts as a use for each macro in `known`, which
/// holds such macros of other files. Macros that the source defines are added to `known` instead of
/// being reported as uses of an unknown file. A use before its macro's definition needs another
/// scan.
std::vector<FileUse> all_uses_of_files(std::string_view source, HasIncludeMacros& known);

/// Returns all uses except names in angle brackets, which the compiler searches for in the folders
/// of its options.
std::vector<FileUse> uses_of_files(std::string_view source);

}  // namespace cucore::detail
