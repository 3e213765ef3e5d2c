// The roots under which components are looked for: environment variables, Python's folders,
// toolkits of the system.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cucore::pathfinder {

/// An environment variable's value when it is an absolute path, else nothing.
std::optional<std::string> absolute_variable(const std::string& name);

/// The folders given to set_site_packages, or those of the environment.
std::vector<std::string> site_packages();
/// Changes with every set_site_packages, so that cached misses are asked again.
unsigned site_packages_generation();

/// Toolkit roots of the system: derived from where the linker finds the CUDA runtime, then the
/// usual places.
std::vector<std::string> toolkit_roots();

/// The toolkit root a runtime library belongs to: ROOT/lib64/x, ROOT/lib/x or ROOT/targets/T/lib/x;
/// empty otherwise.
std::string toolkit_root_of(std::string_view library_path);

/// What the toolkit calls this machine in ROOT/targets/.
std::string_view target_name();

bool is_folder(const std::string& path);
bool is_file(const std::string& path);
bool is_executable(const std::string& path);

}  // namespace cucore::pathfinder
