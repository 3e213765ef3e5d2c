// cpu/mem/usage.hpp: what a process uses of each device, for whoever monitors: a page in a memfd
// that other processes of the same user find through /proc. It goes with its process, however that
// ends.
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
    std::atomic<std::uint64_t> bytes;     ///< memory taken from it
    std::atomic<std::uint64_t> contexts;  ///< ever made on it
  } devices[kUsageDevices];               ///< by physical index
};

/// This process's page; made at the first call. Private memory when there can be no memfd.
UsagePage& usage_page();

}  // namespace cucpu::driver
