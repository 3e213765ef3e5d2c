// SPDX-License-Identifier: Apache-2.0
// cpu/mem/usage.hpp: the memory and contexts that a process uses on each device, for NVML: a page
// in a memfd that other processes of the same user find through /proc. It is freed with its
// process, however that ends.
#pragma once

#include <atomic>
#include <cstdint>

namespace cucpu::driver {

inline constexpr char kUsageName[] = "cucore-usage";
inline constexpr char kUsageMagic[8] = {'c', 'u', 'u', 's', 'a', 'g', 'e', '1'};
inline constexpr unsigned kUsageDevices = 64;

struct UsagePage {
  char magic[8];
  struct Device {
    std::atomic<std::uint64_t> bytes;     ///< memory allocated on it
    std::atomic<std::uint64_t> contexts;  ///< contexts created on it so far
  } devices[kUsageDevices];               ///< by physical index
};

/// This process's page, made at the first call; private memory when memfd fails.
UsagePage& usage_page();

}  // namespace cucpu::driver
