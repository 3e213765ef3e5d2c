// SPDX-License-Identifier: Apache-2.0
// search_roots.cpp: the search roots, determined on the first search, not at load time.
#include "pathfinder/search_roots.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "cucore/pathfinder.hpp"
#include "pathfinder/catalogue.hpp"
#include "pathfinder/system_linker.hpp"

namespace cucore::pathfinder {
namespace {

struct SitePackages {
  std::mutex mutex;
  std::optional<std::vector<std::string>> given;
  unsigned generation = 0;
};

SitePackages& site_state() {
  static SitePackages state;
  return state;
}

void keep_absolute(std::vector<std::string>& folders) {
  std::erase_if(folders, [](const std::string& f) { return !f.starts_with('/'); });
}

std::vector<std::string> site_packages_of_environment() {
  std::vector<std::string> folders;
  if (const char* list = std::getenv("CUCORE_SITE_PACKAGES")) {
    for (std::string_view rest = list; !rest.empty();) {
      const auto end = std::min(rest.find(':'), rest.size());
      if (end != 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } else if (const auto venv = absolute_variable("VIRTUAL_ENV")) {
    if (DIR* lib = opendir((*venv + "/lib").c_str())) {
      while (const dirent* entry = readdir(lib)) {
        const std::string_view name = entry->d_name;
        if (name.starts_with("python3"))
          folders.push_back(*venv + "/lib/" + std::string{name} + "/site-packages");
      }
      closedir(lib);
      std::ranges::sort(folders);
    }
  }
  keep_absolute(folders);
  return folders;
}

}  // namespace

std::optional<std::string> absolute_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || value[0] != '/') return std::nullopt;
  return std::string{value};
}

void set_site_packages(std::vector<std::string> folders) {
  keep_absolute(folders);
  auto& state = site_state();
  const std::lock_guard lock{state.mutex};
  if (state.given == folders) return;
  state.given = std::move(folders);
  ++state.generation;
}

std::vector<std::string> site_packages() {
  auto& state = site_state();
  const std::lock_guard lock{state.mutex};
  if (!state.given) state.given = site_packages_of_environment();
  return *state.given;
}

unsigned site_packages_generation() {
  auto& state = site_state();
  const std::lock_guard lock{state.mutex};
  return state.generation;
}

std::string_view target_name() {
#if defined(__x86_64__)
  return "x86_64-linux";
#elif defined(__aarch64__)
  return "sbsa-linux";
#else
  return "unknown-linux";
#endif
}

std::string toolkit_root_of(std::string_view library_path) {
  const auto parent = [](std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
  };
  const auto last = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  const auto folder = parent(library_path);
  if (last(folder) != "lib64" && last(folder) != "lib") return {};
  const auto above = parent(folder);
  if (last(parent(above)) == "targets") return std::string{parent(parent(above))};
  return std::string{above};
}

std::vector<std::string> toolkit_roots() {
  std::vector<std::string> roots;
  const auto add = [&roots](std::string root) {
    if (!root.empty() && std::ranges::find(roots, root) == roots.end())
      roots.push_back(std::move(root));
  };
  for (const auto soname : split(find_entry(Kind::dynamic_lib, "cudart")->files)) {
    for (const auto& path : linker_candidates(soname)) {
      if (!is_file(path)) continue;
      add(toolkit_root_of(path));
      std::error_code error;
      const auto real = std::filesystem::canonical(path, error);
      if (!error) add(toolkit_root_of(real.native()));
    }
  }
  for (const char* usual : {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"}) add(usual);
  return roots;
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_file(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && access(path.c_str(), X_OK) == 0;
}

}  // namespace cucore::pathfinder
