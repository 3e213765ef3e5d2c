// SPDX-License-Identifier: Apache-2.0
// nvml.hpp: NVML, the management library: where it is, its functions, its errors.
#pragma once

#include <string>

#include "cucore/abi/nvml.h"
#include "cucore/export.hpp"

namespace cucore::detail {

/// The handle of the loaded library. NVML follows the driver: CUCORE_DEVICE=cpu means the CPU
/// device's, gpu NVIDIA's. Left alone, NVIDIA's answers where it is installed, without starting
/// CUDA, unless this process runs on the CPU device already. Throws pathfinder::NotFoundError; a
/// later call tries again.
CUCORE_EXPORT void* nvml_library();

/// A function of NVML after nvmlInit. Throws NVMLError where this NVML does not have it.
[[nodiscard]] void* nvml_function(const char* name);
/// "NVML_ERROR_NOT_SUPPORTED".
[[nodiscard]] const char* nvml_result_name(int code) noexcept;
[[noreturn]] void fail_nvml(nvmlReturn_t code, const char* call);
inline void check_nvml(nvmlReturn_t code, const char* call) {
  if (code != NVML_SUCCESS) fail_nvml(code, call);
}

}  // namespace cucore::detail

/// Finds a function of NVML once per place.
#define CUCORE_NVML_FUNCTION(name)                                                   \
  ([]() -> decltype(&::name) {                                                       \
    static const auto found =                                                        \
        reinterpret_cast<decltype(&::name)>(::cucore::detail::nvml_function(#name)); \
    return found;                                                                    \
  }())
/// Calls a function of NVML and throws NVMLError on failure.
#define CUCORE_NVML(name, ...) \
  ::cucore::detail::check_nvml(CUCORE_NVML_FUNCTION(name)(__VA_ARGS__), #name)
/// The last argument of a function of NVML is where it writes its answer.
#define CUCORE_ASK(type, name, ...)                         \
  ([&] {                                                    \
    type answer{};                                          \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) & answer); \
    return answer;                                          \
  }())
/// The same for text.
#define CUCORE_ASK_TEXT(name, ...)                                   \
  ([&] {                                                             \
    char text[256] = {};                                             \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) text, sizeof text); \
    return std::string{text};                                        \
  }())
