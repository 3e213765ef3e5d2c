// SPDX-License-Identifier: Apache-2.0
// cpu/base/settings.hpp: settings of the CPU device from the environment, read once by cuInit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpu/base/compute_capability.hpp"

namespace cucpu::driver {

struct Settings {
  int devices = 1;                          ///< CUCORE_CPU_DEVICES, before CUDA_VISIBLE_DEVICES
  std::vector<const Limits*> capabilities;  ///< CUCORE_CPU_ARCH: of each device, by physical index
  unsigned threads = 1;                     ///< CUCORE_CPU_THREADS: host threads that run kernels
  std::size_t memory = 0;                   ///< CUCORE_CPU_MEMORY: bytes of each device
  std::chrono::nanoseconds timeout{0};      ///< CUCORE_CPU_TIMEOUT: the time limit of a kernel,
                                            ///< enforced by the engine; 0 for no limit
  bool blocking_launches = false;           ///< CUDA_LAUNCH_BLOCKING: launches wait for their end
  std::vector<int> visible;                 ///< physical index of each visible device
};

/// Reads the environment. An invalid value prints one line to standard error and fails with
/// CUDA_ERROR_INVALID_VALUE.
Settings read_settings();

/// A number of bytes such as `1073741824`, `512M` or `1.5GiB`; nothing when the text is invalid.
std::optional<std::size_t> parse_bytes(const std::string& text);

inline constexpr int kPciDomain =
    0xcc00;  ///< PCI domain of the devices; the bus is the physical index + 1
inline constexpr int kDriverVersion = 13040;

std::string host_cpu_name();
std::string device_name();
std::size_t host_memory_bytes();  ///< memory available to this process: the machine's memory or the
                                  ///< control group's limit
std::string device_uuid_text(int physical_index);  ///< GPU-xxxxxxxx-xxxx-…, stable on one machine
void device_uuid(int physical_index, unsigned char (&bytes)[16]);

}  // namespace cucpu::driver
