// known_kernels.cpp: which kernel handles came through the driver table, and are still good.
#include "driver/known_kernels.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/mutex.hpp"

namespace cucore::detail {
namespace {

struct Known {
  Mutex mutex;
  std::unordered_map<CUlibrary, std::vector<CUkernel>> by_library;
  std::unordered_map<CUkernel, bool> is_loaded;
  std::size_t unloaded = 0;  // of is_loaded
};
Known& known() {  // never destroyed: code may be unloaded while the process exits
  static Known* const instance = new Known;
  return *instance;
}

decltype(DriverTable::cuLibraryGetKernel) get_kernel;
decltype(DriverTable::cuLibraryGetKernelCount) get_kernel_count;
decltype(DriverTable::cuLibraryEnumerateKernels) enumerate_kernels;
decltype(DriverTable::cuLibraryUnload) unload;

void note(CUlibrary library, const CUkernel* kernels, std::size_t count) noexcept try {
  Known& k = known();
  const std::lock_guard lock{k.mutex};
  for (std::size_t i = 0; i < count; ++i) {
    bool& loaded = k.is_loaded[kernels[i]];
    if (loaded) continue;
    k.by_library[library].push_back(kernels[i]);
    loaded = true;
  }
} catch (...) {  // no memory for it: the handle stays unknown, which is nothing wrong
}

/// Marks the kernels of a library as unloaded, and returns them.
std::vector<CUkernel> forget(CUlibrary library) noexcept {
  constexpr std::size_t kMostUnloaded = 1 << 16;
  Known& k = known();
  const std::lock_guard lock{k.mutex};
  auto found = k.by_library.extract(library);
  if (found.empty()) return {};
  for (const CUkernel kernel : found.mapped()) {
    if (const auto row = k.is_loaded.find(kernel); row != k.is_loaded.end()) row->second = false;
  }
  k.unloaded += found.mapped().size();
  if (k.unloaded >= kMostUnloaded) {  // a process that loads and unloads for ever
    std::erase_if(k.is_loaded, [](const auto& row) { return !row.second; });
    k.unloaded = 0;
  }
  return std::move(found.mapped());
}

CUresult watched_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const CUresult code = get_kernel(kernel, library, name);
  if (code == CUDA_SUCCESS) note(library, kernel, 1);
  return code;
}

CUresult watched_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  const CUresult code = enumerate_kernels(kernels, count, library);
  unsigned there = 0;
  if (code == CUDA_SUCCESS && get_kernel_count(&there, library) == CUDA_SUCCESS)
    note(library, kernels, count < there ? count : there);
  return code;
}

/// Before the call: once it has returned, another thread may be given the same handles again.
CUresult watched_unload(CUlibrary library) {
  const std::vector<CUkernel> kernels = forget(library);
  const CUresult code = unload(library);
  if (code != CUDA_SUCCESS) note(library, kernels.data(), kernels.size());
  return code;
}

}  // namespace

KernelHandle what_is_known_of(CUkernel handle) {
  Known& k = known();
  const std::lock_guard lock{k.mutex};
  const auto found = k.is_loaded.find(handle);
  if (found == k.is_loaded.end()) return KernelHandle::unknown;
  return found->second ? KernelHandle::loaded : KernelHandle::unloaded;
}

void watch_kernels(DriverTable& table) {
  get_kernel = std::exchange(table.cuLibraryGetKernel, &watched_get_kernel);
  get_kernel_count = table.cuLibraryGetKernelCount;
  enumerate_kernels = std::exchange(table.cuLibraryEnumerateKernels, &watched_enumerate_kernels);
  unload = std::exchange(table.cuLibraryUnload, &watched_unload);
}

}  // namespace cucore::detail
