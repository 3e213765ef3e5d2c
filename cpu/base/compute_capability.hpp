// SPDX-License-Identifier: Apache-2.0
// cpu/base/compute_capability.hpp: the compute capability that the CPU device reports. Header-only,
// because the driver layer, the engine and NVML are separate libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cpu/base/environment.hpp"

namespace cucpu {

/// Limits of a compute capability; the rows of api/cpu_device.json.
struct Limits {
  unsigned major, minor;
  std::size_t shared_per_block;  ///< without CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  std::size_t shared_per_block_opt_in;
  std::size_t shared_per_sm;
  std::size_t shared_reserved;  ///< reserved by the system in each block
  unsigned threads_per_sm;
  unsigned blocks_per_sm;
  unsigned registers_per_sm;
  unsigned single_to_double_ratio;

  /// The number in the target's name: 90 for sm_90.
  constexpr std::uint32_t target() const noexcept { return major * 10 + minor; }
};

inline constexpr Limits kComputeCapabilities[] = {
#include "compute_capabilities.inc"
};

namespace environment {

/// CUCORE_CPU_ARCH as "10.0", "100" or "sm_100"; 9.0 where it is not set. Throws Invalid.
inline const Limits& compute_capability() {
  const std::string given = text("CUCORE_CPU_ARCH").value_or("9.0");
  const std::string word = given.starts_with("sm_") ? given.substr(3) : given;
  std::string known;
  for (const Limits& limits : kComputeCapabilities) {
    const std::string name = std::to_string(limits.major) + "." + std::to_string(limits.minor);
    if (word == name || word == std::to_string(limits.target())) return limits;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Invalid{"CUCORE_CPU_ARCH", given, "one of " + known};
}

}  // namespace environment
}  // namespace cucpu
