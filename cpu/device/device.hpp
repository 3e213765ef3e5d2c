// SPDX-License-Identifier: Apache-2.0
// cpu/device/device.hpp: the visible devices of this process.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/base/error.hpp"
#include "cpu/base/object.hpp"
#include "cpu/base/settings.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

class Context;
class MemPool;

/// One device. Never destroyed.
struct Device {
  int ordinal = 0;
  int physical = 0;  ///< index before CUDA_VISIBLE_DEVICES
  std::string name;
  const Limits* limits = nullptr;  ///< of its compute capability (CUCORE_CPU_ARCH)
  unsigned char uuid[16] = {};
  Budget budget;

  std::mutex primary_mutex;
  Context* primary = nullptr;  ///< created at first use, never destroyed: its handle stays the same
  int primary_uses = 0;
  unsigned primary_flags = 0;

  std::mutex pool_mutex;
  Ref<Object> default_pool, current_pool;  ///< MemPool; made at first use
};

const Settings& settings() noexcept;
/// Copies of what every launch tests.
inline std::atomic<int> g_device_count{0};
inline std::atomic<bool> g_blocking_launches{false};  ///< Settings::blocking_launches
inline int device_count() noexcept { return g_device_count.load(std::memory_order_relaxed); }
inline bool has_blocking_launches() noexcept {
  return g_blocking_launches.load(std::memory_order_relaxed);
}
Device& device_of(CUdevice ordinal);  ///< fails with 101
inline bool is_device(CUdevice ordinal) noexcept {
  return ordinal >= 0 && ordinal < device_count();
}
int device_attribute(const Device& device, CUdevice_attribute attribute);

/// The number in the name of the device's target (90 for sm_90), for code that is loaded now. Reads
/// the environment at each load.
std::uint32_t target_of(const Device& device);
inline constexpr unsigned kMaxClusterPortable = 8, kMaxCluster = 16;

/// The work of cuInit: reads the settings and creates the devices. Fails with the code of cuInit.
void initialize_process();

}  // namespace cucpu::driver
