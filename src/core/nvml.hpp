// SPDX-License-Identifier: Apache-2.0
// nvml.hpp: NVML, the management library: loading, functions, errors.
#pragma once

#include <string>

#include "cucore/abi/nvml.h"
#include "cucore/export.hpp"

namespace cucore::detail {

/// Returns the handle of the loaded library. CUCORE_DEVICE selects it: `cpu` the CPU device's NVML,
/// `gpu` NVIDIA's. Otherwise NVIDIA's is loaded if it is installed, without initializing CUDA,
/// unless this process already uses the CPU device. Throws pathfinder::NotFoundError; the next call
/// then retries.
CUCORE_EXPORT void* nvml_library();

/// Returns a function of NVML after nvmlInit. Throws NVMLError if this NVML does not have it.
[[nodiscard]] void* nvml_function(const char* name);
/// Returns, for example, "NVML_ERROR_NOT_SUPPORTED".
[[nodiscard]] const char* nvml_result_name(int code) noexcept;
[[noreturn]] void fail_nvml(nvmlReturn_t code, const char* call);
inline void check_nvml(nvmlReturn_t code, const char* call) {
  if (code != NVML_SUCCESS) fail_nvml(code, call);
}

}  // namespace cucore::detail

/// Looks up a function of NVML once per call site.
#define CUCORE_NVML_FUNCTION(name)                                                   \
  ([]() -> decltype(&::name) {                                                       \
    static const auto found =                                                        \
        reinterpret_cast<decltype(&::name)>(::cucore::detail::nvml_function(#name)); \
    return found;                                                                    \
  }())
/// Calls a function of NVML and throws NVMLError on failure.
#define CUCORE_NVML(name, ...) \
  ::cucore::detail::check_nvml(CUCORE_NVML_FUNCTION(name)(__VA_ARGS__), #name)
/// Calls a function of NVML whose last argument is the output, and returns that output.
#define CUCORE_ASK(type, name, ...)                         \
  ([&] {                                                    \
    type answer{};                                          \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) & answer); \
    return answer;                                          \
  }())
/// Like CUCORE_ASK, for a string.
#define CUCORE_ASK_TEXT(name, ...)                                   \
  ([&] {                                                             \
    char text[256] = {};                                             \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) text, sizeof text); \
    return std::string{text};                                        \
  }())
