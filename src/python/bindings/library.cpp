// SPDX-License-Identifier: Apache-2.0
// library.cpp: loads NVIDIA's libraries when one of their functions is first called.
#include "library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cucore/driver.hpp"
#include "cucore/pathfinder.hpp"
#include "engine.hpp"

namespace cucore::bindings {
namespace {

/// Tells the search where Python's packages are: cuda.pathfinder does it when it is asked for
/// anything. Once per process.
void prepare_search() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  Ref environment{PyImport_ImportModule("cuda.pathfinder._environment")};
  Ref result{environment ? PyObject_CallMethod(environment.get(), "refresh", nullptr) : nullptr};
  if (!result) PyErr_Clear();  // the search then relies on the environment's variables
}

/// The CPU device's own NVML, which lies in the folder `cpu` beside its driver library; null when
/// the driver in use is a GPU's.
void* cpu_nvml() {
  const DriverInfo& info = driver_info();
  if (info.kind != DeviceKind::cpu) return nullptr;
  const std::string folder = info.path.substr(0, info.path.rfind('/'));
  for (const char* place : {"/cpu/libnvidia-ml.so.1", "/libnvidia-ml.so.1"})
    if (void* handle = ::dlopen((folder + place).c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

/// NVML follows the driver: CUCORE_DEVICE=cpu means ours, gpu NVIDIA's. Left alone, NVIDIA's
/// answers where it is installed, without starting CUDA, unless this process runs on the CPU device
/// already.
void* nvml_handle() {
  const char* wish = std::getenv("CUCORE_DEVICE");
  const std::string_view device = wish ? wish : "";
  const bool on_cpu = device == "cpu" || (device != "gpu" && driver_is_loaded() &&
                                          driver_info().kind == DeviceKind::cpu);
  if (on_cpu)
    if (void* own = cpu_nvml()) return own;
  try {
    return pathfinder::load_nvidia_dynamic_lib("nvml").handle;
  } catch (const std::exception&) {
    if (device == "gpu") throw;
    void* own = cpu_nvml();
    if (!own) throw;
    return own;
  }
}

}  // namespace

void* library_symbol(const char* library, const char* symbol) {
  prepare_search();
  if (std::string_view{library} == "nvml") {
    static void* const nvml = nvml_handle();  // tried again after an exception
    return ::dlsym(nvml, symbol);
  }
  return ::dlsym(pathfinder::load_nvidia_dynamic_lib(library).handle, symbol);
}

}  // namespace cucore::bindings
