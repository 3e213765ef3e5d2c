// SPDX-License-Identifier: Apache-2.0
// kernel_registry.cpp: wraps cuLibraryGetKernel, cuLibraryEnumerateKernels and cuLibraryUnload to
// record kernel handles.
#include "driver/kernel_registry.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/mutex.hpp"

namespace cucore::detail {
namespace {

struct Registry {
  Mutex mutex;
  std::unordered_map<CUlibrary, std::vector<CUkernel>> by_library;
  std::unordered_map<CUkernel, bool> is_loaded;
  std::size_t unloaded = 0;  // rows of is_loaded whose value is false
};
Registry& registry() {  // never destroyed: libraries may be unloaded while the process exits
  static Registry* const instance = new Registry;
  return *instance;
}

decltype(DriverTable::cuLibraryGetKernel) get_kernel;
decltype(DriverTable::cuLibraryGetKernelCount) get_kernel_count;
decltype(DriverTable::cuLibraryEnumerateKernels) enumerate_kernels;
decltype(DriverTable::cuLibraryUnload) unload;

void add(CUlibrary library, const CUkernel* kernels, std::size_t count) noexcept try {
  Registry& k = registry();
  const std::lock_guard lock{k.mutex};
  for (std::size_t i = 0; i < count; ++i) {
    bool& loaded = k.is_loaded[kernels[i]];
    if (loaded) continue;
    k.by_library[library].push_back(kernels[i]);
    loaded = true;
  }
} catch (...) {  // out of memory: the handle stays unknown, and unknown handles are accepted
}

/// Marks the kernels of a library as unloaded, and returns them.
std::vector<CUkernel> mark_unloaded(CUlibrary library) noexcept {
  constexpr std::size_t kMaxUnloaded = 1 << 16;
  Registry& k = registry();
  const std::lock_guard lock{k.mutex};
  auto found = k.by_library.extract(library);
  if (found.empty()) return {};
  for (const CUkernel kernel : found.mapped()) {
    if (const auto row = k.is_loaded.find(kernel); row != k.is_loaded.end()) row->second = false;
  }
  k.unloaded += found.mapped().size();
  if (k.unloaded >= kMaxUnloaded) {  // bounds the memory of a process that keeps loading libraries
    std::erase_if(k.is_loaded, [](const auto& row) { return !row.second; });
    k.unloaded = 0;
  }
  return std::move(found.mapped());
}

CUresult tracked_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const CUresult code = get_kernel(kernel, library, name);
  if (code == CUDA_SUCCESS) add(library, kernel, 1);
  return code;
}

CUresult tracked_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  const CUresult code = enumerate_kernels(kernels, count, library);
  unsigned total = 0;
  if (code == CUDA_SUCCESS && get_kernel_count(&total, library) == CUDA_SUCCESS)
    add(library, kernels, count < total ? count : total);
  return code;
}

/// Marks the kernels before the call: after it, the driver may return the same handles to another
/// thread.
CUresult tracked_unload(CUlibrary library) {
  const std::vector<CUkernel> kernels = mark_unloaded(library);
  const CUresult code = unload(library);
  if (code != CUDA_SUCCESS) add(library, kernels.data(), kernels.size());
  return code;
}

}  // namespace

KernelHandleState kernel_handle_state(CUkernel handle) {
  Registry& k = registry();
  const std::lock_guard lock{k.mutex};
  const auto found = k.is_loaded.find(handle);
  if (found == k.is_loaded.end()) return KernelHandleState::unknown;
  return found->second ? KernelHandleState::loaded : KernelHandleState::unloaded;
}

void track_kernels(DriverTable& table) {
  get_kernel = std::exchange(table.cuLibraryGetKernel, &tracked_get_kernel);
  get_kernel_count = table.cuLibraryGetKernelCount;
  enumerate_kernels = std::exchange(table.cuLibraryEnumerateKernels, &tracked_enumerate_kernels);
  unload = std::exchange(table.cuLibraryUnload, &tracked_unload);
}

}  // namespace cucore::detail
