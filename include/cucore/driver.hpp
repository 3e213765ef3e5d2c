// SPDX-License-Identifier: Apache-2.0
// cucore/driver.hpp: which driver library is in use, and the table of its functions.
#pragma once

#include <atomic>
#include <string>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// Pointers to every driver function. A function this driver lacks points to a stand-in that
/// returns CUDA_ERROR_NOT_SUPPORTED; check() then says which function is missing and what the
/// driver's version is.
struct DriverTable {
#define CUCORE_FN(name, ...) decltype(&::name) name = nullptr;
#include "driver_functions.inc"
#undef CUCORE_FN
};

enum class DeviceKind { gpu, cpu };  ///< Whose driver is in use.

/// What the loader decided, for reports. Nothing here changes after loading.
struct DriverInfo {
  DeviceKind kind = DeviceKind::gpu;  ///< what runs the device code
  int version = 0;                    ///< cuDriverGetVersion: 1000 * major + 10 * minor
  bool per_thread_stream = false;     ///< CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1
  bool fell_back_to_cpu = false;      ///< CUCORE_DEVICE=auto found no GPU
  std::string path{};                 ///< the library that was loaded
  std::string why{};                  ///< what was tried, one line each
};

namespace detail {
extern CUCORE_EXPORT std::atomic<const DriverTable*> loaded_table;
CUCORE_EXPORT const DriverTable& load_driver();
}  // namespace detail

/// The driver's functions. The first call loads the library that CUCORE_DEVICE (auto, gpu, cpu)
/// selects and initialises it; from any thread. Throws DriverNotFoundError with what was tried; a
/// later call tries again.
inline const DriverTable& driver() {
  const DriverTable* table = detail::loaded_table.load(std::memory_order_acquire);
  if (table != nullptr) [[likely]]
    return *table;
  return detail::load_driver();
}

/// Loads the driver if need be.
[[nodiscard]] CUCORE_EXPORT const DriverInfo& driver_info();

/// False before the first use; never loads.
[[nodiscard]] inline bool driver_is_loaded() noexcept {
  return detail::loaded_table.load(std::memory_order_acquire) != nullptr;
}

/// Destructors call `probe`, and free nothing once it returns true: the process exits and frees
/// what they own, and waiting for running work would delay that. close() is not affected.
CUCORE_EXPORT void leave_to_process_end(bool (*probe)()) noexcept;

namespace detail {
extern CUCORE_EXPORT std::atomic<bool (*)()> process_is_ending;
/// What a destructor asks before it touches the driver.
[[nodiscard]] inline bool may_free() noexcept {
  if (!driver_is_loaded()) return false;
  bool (*const probe)() = process_is_ending.load(std::memory_order_relaxed);
  return probe == nullptr || !probe();
}
}  // namespace detail

/// True when the loaded driver has the function. Loads the driver if need be.
[[nodiscard]] CUCORE_EXPORT bool driver_has(const char* function);

/// Called once, with a sentence for the user, when `auto` falls back to the CPU device. The Python
/// packages turn it into a warning. The handler runs on the thread that loads the driver and may
/// throw: the driver stays loaded.
CUCORE_EXPORT void on_cpu_fallback(void (*handler)(const char* text));

}  // namespace cucore
