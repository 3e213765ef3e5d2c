// SPDX-License-Identifier: Apache-2.0
// library.cpp: finds and opens the driver library.
#include "driver/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "cucore/driver.hpp"
#include "pathfinder/system_linker.hpp"
#include "protection.hpp"

namespace cucore::detail {
namespace {

constexpr const char* kDriverName = "libcuda.so.1";
constexpr const char* kCpuName = "libcucore_cpu.so";

constexpr const char* kAliasName = "libcucore_cpu_named.so";  // CPU device with soname libcuda.so.1

/// Driver folders of distributions and containers; some are not in the linker's search path.
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

DriverLibrary open(const std::string& name, std::vector<std::string>& tried) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    tried.push_back(name + ": " + (reason != nullptr ? reason : "cannot be opened"));
    return {};
  }
  return {handle, path_of(handle, name)};
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

void* DriverLibrary::symbol(const char* name) const noexcept { return dlsym(handle, name); }

/// Searches the linker's folders instead of calling dlopen() with the bare name: dlopen() resolves
/// an empty or relative entry of LD_LIBRARY_PATH against the working directory, where another user
/// may have placed a file.
DriverLibrary open_gpu_library(std::vector<std::string>& tried) {
  if (void* loaded = dlopen(kDriverName, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL))
    return {loaded, path_of(loaded, kDriverName)};  // already loaded in this process
  if (!CUCORE_PROTECTION("absolute-driver-path")) return open(kDriverName, tried);
  std::vector<std::string> paths = pathfinder::linker_candidates(kDriverName);
  for (const char* folder : kSystemFolders)
    paths.push_back(std::string{folder} + "/" + kDriverName);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!exists(paths[i]) ||
        std::find(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(i), paths[i]) !=
            paths.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    if (DriverLibrary library = open(paths[i], tried)) return library;
  }
  tried.push_back(std::string{kDriverName} +
                  ": not found in the system's library folders or in LD_LIBRARY_PATH (entries that "
                  "are not absolute paths are ignored)");
  return {};
}

DriverNameScope::DriverNameScope() noexcept {
  handle_ = dlopen(kDriverName, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;  // already loaded in this process
  try {
    const char* const choice = std::getenv("CUCORE_DEVICE");
    const bool on_cpu = std::string_view{choice != nullptr ? choice : ""} == "cpu" ||
                        driver_is_loaded();  // not NVIDIA's: dlopen() above would have found it
    std::vector<std::string> ignored;
    if (!on_cpu && open_gpu_library(ignored)) return;  // driver libraries are never closed
    if (const DriverLibrary cpu = open_cpu_library(ignored))
      handle_ = dlopen((cpu.path.substr(0, cpu.path.rfind('/') + 1) + kAliasName).c_str(),
                       RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception&) {  // out of memory: NVRTC then uses the linker's own search
  }
}

DriverNameScope::~DriverNameScope() {
  if (handle_ != nullptr) dlclose(handle_);
}

DriverLibrary open_cpu_library(std::vector<std::string>& tried) {
  if (const char* given = std::getenv("CUCORE_CPU_LIBRARY"); given != nullptr && *given != '\0') {
    if (*given == '/') {
      DriverLibrary library = open(given, tried);
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
