// SPDX-License-Identifier: Apache-2.0
// include_scan.hpp: which files a C++ source asks for.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::detail {

/// A directive or test in a source that makes the result of its compilation depend on a file.
struct FileUse {
  std::string text;  ///< as it stands there: #include "file", #include NAME, __has_include("file")
  std::string file;  ///< the name between quotes or brackets; empty where a macro gives it
  bool in_brackets = false;  ///< #include <file>, __has_include(<file>)
};

/// All uses of files in a source. Comments and literals are left out; what #if leaves out is not,
/// since that depends on macros.
std::vector<FileUse> all_uses_of_files(std::string_view source);

/// Macros that stand for __has_include: `#define HAS(X) __has_include(X)`, `#define HAS
/// __has_include`.
using HasIncludeMacros = std::set<std::string, std::less<>>;

/// As all_uses_of_files(), where `known` holds such macros of other files: HAS(<file>) is a use of
/// a file, too. Those that the source defines are added to `known` instead of being reported as a
/// use whose file a macro gives; uses that stand before their definition need another scan.
std::vector<FileUse> all_uses_of_files(std::string_view source, HasIncludeMacros& known);

/// All uses without names in angle brackets, which the compiler looks for in folders that are part
/// of its options.
std::vector<FileUse> uses_of_files(std::string_view source);

}  // namespace cucore::detail
