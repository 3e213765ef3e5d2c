// cpu/base/settings.hpp: what the environment says about the CPU device, read once by cuInit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cucpu::driver {

struct Settings {
  int devices = 1;                      ///< CUCORE_CPU_DEVICES, before CUDA_VISIBLE_DEVICES
  unsigned threads = 1;                 ///< CUCORE_CPU_THREADS: host threads that run kernels
  std::size_t memory = 0;               ///< CUCORE_CPU_MEMORY: bytes of each device
  std::chrono::nanoseconds timeout{0};  ///< CUCORE_CPU_TIMEOUT: how long a kernel may run (the
                                        ///< engine sees to it), 0 for no limit
  bool blocking_launches = false;       ///< CUDA_LAUNCH_BLOCKING: launches wait for their end
  std::vector<int> visible;             ///< physical index of each device a program sees
};

/// Reads the environment. An unreadable value is an Error (invalid value) after one line on
/// standard error that names it.
Settings read_settings();

/// Bytes as people write them: `1073741824`, `512M`, `1.5GiB`. Nothing when it cannot be read.
std::optional<std::size_t> parse_bytes(const std::string& text);

inline constexpr int kPciDomain =
    0xcc00;  ///< of the devices' PCI addresses; the bus is the physical index + 1
inline constexpr int kDriverVersion = 13040;

std::string host_cpu_name();
std::string device_name();
std::size_t host_memory_bytes();  ///< what this process may use: the machine's memory or the
                                  ///< control group's limit
std::string device_uuid_text(int physical_index);  ///< GPU-xxxxxxxx-xxxx-…, stable on one machine
void device_uuid(int physical_index, unsigned char (&bytes)[16]);

}  // namespace cucpu::driver
