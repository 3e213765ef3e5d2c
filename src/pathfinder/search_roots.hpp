// SPDX-License-Identifier: Apache-2.0
// search_roots.hpp: the root folders of the search: environment variables, site-packages folders,
// installed toolkits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::pathfinder {

/// Value of an environment variable if it is an absolute path.
std::optional<std::string> absolute_variable(const std::string& name);

/// The folders passed to set_site_packages(), or else those of CUCORE_SITE_PACKAGES or VIRTUAL_ENV.
std::vector<std::string> site_packages();
/// Changes with every set_site_packages() call that changes the list, which invalidates cached
/// misses.
unsigned site_packages_generation();

/// Installed toolkits: roots derived from the CUDA runtime libraries that the linker finds, then
/// the default installation folders.
std::vector<std::string> toolkit_roots();

/// Root of the toolkit that contains a runtime library (ROOT/lib64/x, ROOT/lib/x or
/// ROOT/targets/T/lib/x); empty for any other path.
std::string toolkit_root_of(std::string_view library_path);

/// Name of this architecture's folder in ROOT/targets/.
std::string_view target_name();

bool is_folder(const std::string& path);
bool is_file(const std::string& path);
bool is_executable(const std::string& path);

}  // namespace cucore::pathfinder
