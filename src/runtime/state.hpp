// SPDX-License-Identifier: Apache-2.0
// state.hpp: helpers of all runtime functions: call the driver, ensure a current context, set the
// thread's last error.
#pragma once
#include <bit>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>

#include "cucore/driver.hpp"
#include "cucore/runtime.hpp"

namespace cucore::rt {

/// Stores an error as the thread's last error and returns it; cudaSuccess does not change it.
cudaError_t set_last_error(cudaError_t code) noexcept;
cudaError_t last_error(bool clear) noexcept;
/// Result for a driver that could not be loaded; stores the reason for runtime_error_detail().
cudaError_t driver_load_error(const std::exception& reason) noexcept;

/// Result codes have the same numbers in both APIs.
constexpr cudaError_t from(CUresult code) noexcept { return static_cast<cudaError_t>(code); }

/// If this thread has no current context, makes the primary context of its device current.
CUresult ensure_context();
/// Returns the thread's device: that of the current context, else that of cudaSetDevice, else 0.
CUresult current_device(CUdevice* device);
/// Returns the primary context of a device, retained on the first call.
CUresult primary_context(CUdevice device, CUcontext* context);
void release_primary_context(CUdevice device);
void set_thread_device(CUdevice device) noexcept;

/// Returns the CUfunction of a runtime argument `const void* func`.
CUresult function_of(const void* func, CUfunction* function);
void register_kernel(CUkernel kernel);
/// Called when the library of these kernels is unloaded.
void erase_kernels(std::span<const CUkernel> gone);

/// Calls a body that returns CUresult or cudaError_t, and sets the thread's last error.
template <class Body>
cudaError_t call_driver(Body&& body) noexcept {
  try {
    const DriverTable& table = driver();
    return set_last_error(static_cast<cudaError_t>(body(table)));
  } catch (const std::exception& reason) {
    return set_last_error(driver_load_error(reason));
  }
}

/// Like call_driver(), with a current context.
template <class Body>
cudaError_t call_with_context(Body&& body) noexcept {
  return call_driver([&](const DriverTable& table) -> cudaError_t {
    if (const CUresult code = ensure_context(); code != CUDA_SUCCESS) return from(code);
    return static_cast<cudaError_t>(body(table));
  });
}

/// Calls `body` with the driver's equivalent of a runtime struct.
template <class Given, class Native, class Body>
cudaError_t converted(CUresult (*convert)(const DriverTable&, const Given&, Native*),
                      const Given* given, Body&& body) noexcept {
  return call_with_context([&](const DriverTable& d) {
    if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Native native{};
    const CUresult code = convert(d, *given, &native);
    return code != CUDA_SUCCESS ? code : body(d, &native);
  });
}

/// Converts a runtime argument to the driver's type. Handles, pointers, enums and structs have the
/// same representation; the size of complete struct types is checked.
template <class To, class From>
To cast(From value) noexcept {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_pointer_v<To> && std::is_pointer_v<From>) {
    using T = std::remove_cv_t<std::remove_pointer_t<To>>;
    using F = std::remove_cv_t<std::remove_pointer_t<From>>;
    if constexpr (requires {
                    sizeof(T);
                    sizeof(F);
                  } &&
                  std::is_class_v<T> && std::is_class_v<F>) {
      static_assert(sizeof(T) == sizeof(F), "the structs of the two APIs differ: convert them");
    }
    if constexpr (std::is_function_v<F>) {
      return reinterpret_cast<To>(value);
    } else {
      return reinterpret_cast<To>(const_cast<F*>(value));
    }
  } else if constexpr (std::is_pointer_v<From>) {
    return static_cast<To>(reinterpret_cast<std::uintptr_t>(value));
  } else if constexpr (std::is_pointer_v<To>) {
    return reinterpret_cast<To>(static_cast<std::uintptr_t>(value));
  } else if constexpr (std::is_class_v<To>) {
    return std::bit_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

inline CUdeviceptr device_pointer(const void* p) noexcept {
  return reinterpret_cast<CUdeviceptr>(p);
}

// One function per source file: stores its functions in the table.
void install_forwards(RuntimeTable& table);
void install_errors(RuntimeTable& table);
void install_devices(RuntimeTable& table);
void install_properties(RuntimeTable& table);
void install_memory(RuntimeTable& table);
void install_copies(RuntimeTable& table);
void install_arrays(RuntimeTable& table);
void install_textures(RuntimeTable& table);
void install_kernels(RuntimeTable& table);
void install_streams(RuntimeTable& table);
void install_graphs(RuntimeTable& table);
void install_pools(RuntimeTable& table);
void install_executions(RuntimeTable& table);
void install_symbols(RuntimeTable& table);

}  // namespace cucore::rt
