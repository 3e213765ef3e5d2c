// SPDX-License-Identifier: Apache-2.0
// cucore/driver.hpp: the loaded driver library and the table of its functions.
#pragma once

#include <atomic>
#include <string>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// Pointers to all driver functions. A function that the driver lacks points to a stub that returns
/// CUDA_ERROR_NOT_SUPPORTED; the error that check() throws then includes the function's name and
/// the driver's version.
struct DriverTable {
#define CUCORE_FN(name, ...) decltype(&::name) name = nullptr;
#include "driver_functions.inc"
#undef CUCORE_FN
};

enum class DeviceKind { gpu, cpu };  ///< NVIDIA's driver, or the CPU device.

/// Result of loading the driver, for reports. Immutable after loading.
struct DriverInfo {
  DeviceKind kind = DeviceKind::gpu;  ///< device that runs the kernels
  int version = 0;                    ///< cuDriverGetVersion: 1000 * major + 10 * minor
  bool per_thread_stream = false;     ///< CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1
  bool fell_back_to_cpu = false;      ///< CUCORE_DEVICE=auto found no usable GPU
  std::string path{};                 ///< path of the loaded library
  std::string why{};  ///< libraries that could not be used, with the reason, one per line
};

namespace detail {
extern CUCORE_EXPORT std::atomic<const DriverTable*> loaded_table;
CUCORE_EXPORT const DriverTable& load_driver();
}  // namespace detail

/// Returns the driver's functions. The first call loads and initializes the library that
/// CUCORE_DEVICE (auto, gpu, cpu) selects. Thread-safe. Throws DriverNotFoundError, which lists all
/// attempts; a later call tries again.
inline const DriverTable& driver() {
  const DriverTable* table = detail::loaded_table.load(std::memory_order_acquire);
  if (table != nullptr) [[likely]]
    return *table;
  return detail::load_driver();
}

/// Returns information about the loaded driver. Loads the driver if necessary.
[[nodiscard]] CUCORE_EXPORT const DriverInfo& driver_info();

/// Returns whether the driver is loaded. Never loads it.
[[nodiscard]] inline bool driver_is_loaded() noexcept {
  return detail::loaded_table.load(std::memory_order_acquire) != nullptr;
}

/// Sets a predicate that destructors call. Once it returns true they free nothing: the process is
/// exiting, which reclaims its resources, and waiting for running work would delay the exit.
/// close() is not affected.
CUCORE_EXPORT void leave_to_process_end(bool (*probe)()) noexcept;

namespace detail {
extern CUCORE_EXPORT std::atomic<bool (*)()> process_is_ending;
/// Returns whether a destructor may call the driver.
[[nodiscard]] inline bool may_free() noexcept {
  if (!driver_is_loaded()) return false;
  bool (*const probe)() = process_is_ending.load(std::memory_order_relaxed);
  return probe == nullptr || !probe();
}
}  // namespace detail

/// Returns whether the loaded driver has the function. Loads the driver if necessary.
[[nodiscard]] CUCORE_EXPORT bool driver_has(const char* function);

/// Sets a handler that is called once, with a message for the user, when `auto` falls back to the
/// CPU device. The Python packages issue a warning. The handler runs on the thread that loads the
/// driver and may throw; the driver stays loaded.
CUCORE_EXPORT void on_cpu_fallback(void (*handler)(const char* text));

}  // namespace cucore
