// SPDX-License-Identifier: Apache-2.0
// cpu/base/compute_capability.hpp: the compute capabilities that the CPU devices report.
// Header-only, because the driver layer, the engine and NVML are separate libraries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

  /// As users write it: "9.0".
  std::string name() const { return std::to_string(major) + "." + std::to_string(minor); }

  /// The number in the target's name: 90 for sm_90.
  constexpr std::uint32_t target() const noexcept { return major * 10 + minor; }
};

inline constexpr Limits kComputeCapabilities[] = {
#include "compute_capabilities.inc"
};

namespace environment {

/// CUCORE_CPU_DEVICES: the number of devices. Throws Invalid.
inline int devices() {
  return static_cast<int>(integer("CUCORE_CPU_DEVICES", 1, 1, 64, "a number from 1 to 64"));
}

/// The entries of CUCORE_CPU_ARCH: "10.0", "100" or "sm_100". 9.0 where the variable is not set.
/// Throws Invalid.
inline std::vector<const Limits*> listed_capabilities() {
  const std::string given = text("CUCORE_CPU_ARCH").value_or("9.0");
  std::string known;
  for (const Limits& limits : kComputeCapabilities)
    known += (known.empty() ? "" : ", ") + limits.name();
  const auto find = [&](std::string word) -> const Limits* {
    std::erase(word, ' ');
    if (word.starts_with("sm_")) word.erase(0, 3);
    for (const Limits& limits : kComputeCapabilities)
      if (word == limits.name() || word == std::to_string(limits.target())) return &limits;
    throw Invalid{"CUCORE_CPU_ARCH", given,
                  "one of " + known + ", or a list with one of them for each device"};
  };
  std::vector<const Limits*> found;
  for (std::size_t at = 0; at <= given.size();) {
    const std::size_t end = std::min(given.find(',', at), given.size());
    found.push_back(find(given.substr(at, end - at)));
    at = end + 1;
  }
  return found;
}

/// The capability of each device. One entry stands for all devices, otherwise there is one entry
/// per device. Throws Invalid.
inline std::vector<const Limits*> compute_capabilities() {
  std::vector<const Limits*> found = listed_capabilities();
  const auto count = static_cast<std::size_t>(devices());
  if (found.size() == 1) found.resize(count, found.front());
  if (found.size() != count)
    throw Invalid{"CUCORE_CPU_ARCH", *text("CUCORE_CPU_ARCH"),
                  "one capability, or a list of " + std::to_string(count) + ", because there " +
                      (count == 1 ? "is 1 device" : "are " + std::to_string(count) + " devices") +
                      " (CUCORE_CPU_DEVICES); the list has " + std::to_string(found.size())};
  return found;
}

/// The targets (90 for sm_90) of all devices, each once. Throws Invalid.
inline std::vector<std::uint32_t> targets() {
  std::vector<std::uint32_t> found;
  for (const Limits* limits : compute_capabilities())
    if (std::find(found.begin(), found.end(), limits->target()) == found.end())
      found.push_back(limits->target());
  return found;
}

/// The capability of a device by its physical index, as the environment is now. The last entry
/// stands for devices beyond the list, because a program may change the variables after cuInit.
/// Throws Invalid.
inline const Limits& compute_capability(int device) {
  const std::vector<const Limits*> found = listed_capabilities();
  return *found[std::min(static_cast<std::size_t>(device), found.size() - 1)];
}

}  // namespace environment
}  // namespace cucpu
