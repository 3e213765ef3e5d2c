// SPDX-License-Identifier: Apache-2.0
// search.hpp: the order in which files are searched.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cucore/pathfinder.hpp"
#include "pathfinder/catalogue.hpp"

namespace cucore::pathfinder {

/// A candidate matches if `file` exists; `path` is then the result (the folder for headers, else
/// the file).
struct Candidate {
  std::string step;
  std::string path;
  std::string file;
  std::string filename;
  std::string root;  ///< the search root that contains it; empty for the dynamic linker's results
};

/// Calls `visit` for every candidate in the documented order until it returns true, and records
/// skipped steps in `report`. The caller handles libraries that are already loaded.
void walk(Kind kind, const Entry& entry, SearchReport& report,
          const std::function<bool(const Candidate&)>& visit);

/// True if the candidate's file exists (for programs: is executable). Loads nothing.
bool exists(Kind kind, const Candidate& candidate);

/// False if headers that the candidate includes are missing under its root: for example a wheel of
/// the runtime without the wheel of the compiler's headers.
bool has_included_headers(const Entry& entry, const Candidate& candidate);

/// Returns the path that load_nvidia_dynamic_lib() loads or has loaded, or std::nullopt if the
/// library is not installed. Loads nothing. A library that exists but cannot be loaded counts as
/// found.
std::optional<std::string> path_of_dynamic_lib(std::string_view libname);

/// Searches for the folder with the compiler's headers (crt/host_defines.h).
std::optional<Located> locate_compiler_headers();

}  // namespace cucore::pathfinder
