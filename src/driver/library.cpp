// library.cpp: finds and opens the driver library.
#include "driver/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace cucore::detail {
namespace {

constexpr const char* kDriverName = "libcuda.so.1";
constexpr const char* kCpuName = "libcucore_cpu.so";

/// Where distributions and containers put the driver; used when the loader's own path cannot be
/// trusted.
constexpr const char* kSystemFolders[] = {
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
};

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map &&
      map->l_name[0] != '\0') {
    return map->l_name;
  }
  return fallback;
}

Library open(const std::string& name, std::vector<std::string>& tried) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    tried.push_back(name + ": " + (reason != nullptr ? reason : "cannot be opened"));
    return {};
  }
  return {handle, path_of(handle, name)};
}

/// The loader reads an empty or relative entry of LD_LIBRARY_PATH as a place under the working
/// directory.
bool search_path_reaches_working_directory() {
  const char* value = std::getenv("LD_LIBRARY_PATH");
  if (value == nullptr || *value == '\0') return false;
  std::string_view rest{value};
  while (true) {
    const std::size_t end = rest.find_first_of(":;");
    const std::string_view entry = rest.substr(0, end);
    if (entry.empty() || entry.front() != '/') {
      const std::string folder = entry.empty() ? "." : std::string{entry};
      if (exists(folder + "/" + kDriverName)) return true;
    }
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

std::string folder_of_this_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&open_cpu_library), &info) == 0 || info.dli_fname == nullptr)
    return {};
  char resolved[4096];
  const char* path = realpath(info.dli_fname, resolved);
  if (path == nullptr) return {};
  const std::string full{path};
  return full.substr(0, full.rfind('/'));
}

}  // namespace

void* Library::symbol(const char* name) const noexcept { return dlsym(handle, name); }

Library open_gpu_library(std::vector<std::string>& tried) {
  if (!search_path_reaches_working_directory()) return open(kDriverName, tried);
  tried.push_back(
      "LD_LIBRARY_PATH: has an entry that is not an absolute path; only the system's folders were "
      "searched");
  for (const char* folder : kSystemFolders) {
    const std::string path = std::string{folder} + "/" + kDriverName;
    if (!exists(path)) continue;
    if (Library library = open(path, tried)) return library;
  }
  tried.push_back(std::string{kDriverName} + ": not in any of the system's folders");
  return {};
}

Library open_cpu_library(std::vector<std::string>& tried) {
  if (const char* given = std::getenv("CUCORE_CPU_LIBRARY"); given != nullptr && *given != '\0') {
    if (*given == '/') {
      Library library = open(given, tried);
      if (!library) tried.back().insert(0, "CUCORE_CPU_LIBRARY=");
      return library;
    }
    tried.push_back("CUCORE_CPU_LIBRARY=" + std::string{given} + ": must be an absolute path");
    return {};
  }
  const std::string folder = folder_of_this_library();
  if (folder.empty()) {
    tried.push_back(std::string{kCpuName} + ": the folder of libcucore.so is unknown");
    return {};
  }
  for (const std::string& path : {folder + "/" + kCpuName, folder + "/../lib/" + kCpuName}) {
    if (exists(path)) return open(path, tried);
    tried.push_back(path + ": no such file");
  }
  return {};
}

}  // namespace cucore::detail
