// SPDX-License-Identifier: Apache-2.0
// nvml.cpp: finds and initializes NVML, and names its result codes.
#include "core/nvml.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/pathfinder.hpp"

namespace cucore {

NVMLError::~NVMLError() = default;

namespace detail {
namespace {

/// Loads the CPU device's NVML from the folder `cpu` next to its driver library, or from the
/// driver's own folder. Returns null if the driver in use is a GPU driver.
void* cpu_nvml() {
  const DriverInfo& info = driver_info();
  if (info.kind != DeviceKind::cpu) return nullptr;
  const std::string folder = info.path.substr(0, info.path.rfind('/'));
  for (const char* place : {"/cpu/libnvidia-ml.so.1", "/libnvidia-ml.so.1"})
    if (void* handle = ::dlopen((folder + place).c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

void* find_library() {
  const char* wish = std::getenv("CUCORE_DEVICE");
  const std::string_view device = wish != nullptr ? wish : "";
  const bool on_cpu = device == "cpu" || (device != "gpu" && driver_is_loaded() &&
                                          driver_info().kind == DeviceKind::cpu);
  if (on_cpu)
    if (void* own = cpu_nvml()) return own;
  try {
    return pathfinder::load_nvidia_dynamic_lib("nvml").handle;
  } catch (const std::exception&) {
    if (device == "gpu") throw;
    void* own = cpu_nvml();
    if (own == nullptr) throw;
    return own;
  }
}

/// Returns the library after nvmlInit. It stays initialized until the process ends.
void* initialized_library() {
  static void* const library = [] {
    void* const found = nvml_library();
    using Init = decltype(&::nvmlInit_v2);
    const auto init = reinterpret_cast<Init>(::dlsym(found, "nvmlInit_v2"));
    check_nvml(init != nullptr ? init() : NVML_ERROR_FUNCTION_NOT_FOUND, "nvmlInit_v2");
    return found;
  }();
  return library;
}

}  // namespace

void* nvml_library() {
  static void* const library = find_library();  // retried after an exception
  return library;
}

void* nvml_function(const char* name) {
  void* const found = ::dlsym(initialized_library(), name);
  if (found == nullptr) fail_nvml(NVML_ERROR_FUNCTION_NOT_FOUND, name);
  return found;
}

const char* nvml_result_name(int code) noexcept {
  switch (code) {
#define CUCORE_NAME(name) \
  case name:              \
    return #name;
    CUCORE_NAME(NVML_SUCCESS)
    CUCORE_NAME(NVML_ERROR_UNINITIALIZED)
    CUCORE_NAME(NVML_ERROR_INVALID_ARGUMENT)
    CUCORE_NAME(NVML_ERROR_NOT_SUPPORTED)
    CUCORE_NAME(NVML_ERROR_NO_PERMISSION)
    CUCORE_NAME(NVML_ERROR_ALREADY_INITIALIZED)
    CUCORE_NAME(NVML_ERROR_NOT_FOUND)
    CUCORE_NAME(NVML_ERROR_INSUFFICIENT_SIZE)
    CUCORE_NAME(NVML_ERROR_INSUFFICIENT_POWER)
    CUCORE_NAME(NVML_ERROR_DRIVER_NOT_LOADED)
    CUCORE_NAME(NVML_ERROR_TIMEOUT)
    CUCORE_NAME(NVML_ERROR_IRQ_ISSUE)
    CUCORE_NAME(NVML_ERROR_LIBRARY_NOT_FOUND)
    CUCORE_NAME(NVML_ERROR_FUNCTION_NOT_FOUND)
    CUCORE_NAME(NVML_ERROR_CORRUPTED_INFOROM)
    CUCORE_NAME(NVML_ERROR_GPU_IS_LOST)
    CUCORE_NAME(NVML_ERROR_RESET_REQUIRED)
    CUCORE_NAME(NVML_ERROR_OPERATING_SYSTEM)
    CUCORE_NAME(NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    CUCORE_NAME(NVML_ERROR_IN_USE)
    CUCORE_NAME(NVML_ERROR_MEMORY)
    CUCORE_NAME(NVML_ERROR_NO_DATA)
    CUCORE_NAME(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED)
    CUCORE_NAME(NVML_ERROR_INSUFFICIENT_RESOURCES)
    CUCORE_NAME(NVML_ERROR_FREQ_NOT_SUPPORTED)
    CUCORE_NAME(NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    CUCORE_NAME(NVML_ERROR_DEPRECATED)
    CUCORE_NAME(NVML_ERROR_NOT_READY)
    CUCORE_NAME(NVML_ERROR_GPU_NOT_FOUND)
    CUCORE_NAME(NVML_ERROR_INVALID_STATE)
    CUCORE_NAME(NVML_ERROR_RESET_TYPE_NOT_SUPPORTED)
#undef CUCORE_NAME
    default:
      return "NVML_ERROR_UNKNOWN";
  }
}

void fail_nvml(nvmlReturn_t code, const char* call) {
  const char* const name = nvml_result_name(code);
  std::string text = std::string{name} + ": ";
  using ErrorString = decltype(&::nvmlErrorString);
  const auto describe = reinterpret_cast<ErrorString>(::dlsym(nvml_library(), "nvmlErrorString"));
  text += std::string{describe != nullptr ? describe(code) : "failed"} + " (" + call + ")";
  throw NVMLError{static_cast<int>(code), name, text, call};
}

}  // namespace detail
}  // namespace cucore
