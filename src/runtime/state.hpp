// state.hpp: what every runtime function goes through: the driver, a current context, the thread's
// last error.
#pragma once
#include <bit>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "cucore/driver.hpp"
#include "cucore/runtime.hpp"

namespace cucore::rt {

/// Remembers an error as the thread's last one; success leaves the last error alone.
cudaError_t note(cudaError_t code) noexcept;
cudaError_t last_error(bool clear) noexcept;
/// The driver could not be loaded: keeps the reason for runtime_error_detail().
cudaError_t no_driver(const std::exception& reason) noexcept;

/// Result codes have the same numbers in both APIs.
constexpr cudaError_t from(CUresult code) noexcept { return static_cast<cudaError_t>(code); }

/// Makes a context current on this thread if there is none: the primary context of the thread's
/// device.
CUresult ensure_context();
/// The thread's device: that of the current context, else what cudaSetDevice chose, else 0.
CUresult current_device(CUdevice* device);
/// Retains the primary context of a device, once per process.
CUresult primary_context(CUdevice device, CUcontext* context);
void forget_primary(CUdevice device);
void choose_device(CUdevice device) noexcept;

/// A CUfunction for what the runtime API calls `const void *func`.
CUresult function_of(const void* func, CUfunction* function);
void remember_kernel(CUkernel kernel);

/// Runs a body that returns CUresult or cudaError_t; notes its error.
template <class Body>
cudaError_t query(Body&& body) noexcept {
  try {
    const DriverTable& table = driver();
    return note(static_cast<cudaError_t>(body(table)));
  } catch (const std::exception& reason) {
    return note(no_driver(reason));
  }
}

/// The same with a current context.
template <class Body>
cudaError_t run(Body&& body) noexcept {
  return query([&](const DriverTable& table) -> cudaError_t {
    if (const CUresult code = ensure_context(); code != CUDA_SUCCESS) return from(code);
    return static_cast<cudaError_t>(body(table));
  });
}

/// Runs `body` with the driver's form of what the runtime API was given.
template <class Given, class Native, class Body>
cudaError_t converted(CUresult (*convert)(const DriverTable&, const Given&, Native*),
                      const Given* given, Body&& body) noexcept {
  return run([&](const DriverTable& d) {
    if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Native native{};
    const CUresult code = convert(d, *given, &native);
    return code != CUDA_SUCCESS ? code : body(d, &native);
  });
}

/// A runtime argument as the driver's: handles, pointers and enums have the same representation,
/// and so do the structs (checked where both are known).
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

// One function per concept file: puts its functions into the table.
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
