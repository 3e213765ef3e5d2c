// SPDX-License-Identifier: Apache-2.0
// cucore/system.hpp: the system's GPUs as NVML sees them, whether or not this process uses CUDA on
// them. On the CPU device its own NVML answers.
#pragma once

#include <string>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/system_device.hpp"  // IWYU pragma: export
#include "cucore/system_events.hpp"  // IWYU pragma: export

namespace cucore::system {

/// What one GPU can do with another.
enum class GpuP2PCapsIndex { read = 0, write, nvlink, atomics, pci, unknown };
/// Whether it can, and why not.
enum class GpuP2PStatus {
  ok = 0,
  chipset_not_supported,
  gpu_not_supported,
  ioh_topology_not_supported,
  disabled_by_regkey,
  not_supported,
  unknown
};

/// Numbers of a version: {580, 65, 6}.
using Version = std::vector<int>;
[[nodiscard]] CUCORE_EXPORT Version get_user_mode_driver_version();    ///< CUDA's: {13, 0}
[[nodiscard]] CUCORE_EXPORT Version get_kernel_mode_driver_version();  ///< of the kernel's driver
[[nodiscard]] CUCORE_EXPORT Version get_nvml_version();                ///< of NVML
[[nodiscard]] CUCORE_EXPORT std::string get_driver_branch();  ///< what the driver was built from
[[nodiscard]] CUCORE_EXPORT int get_num_devices();            ///< how many GPUs the system has
/// The name of a process that uses a GPU.
[[nodiscard]] CUCORE_EXPORT std::string get_process_name(unsigned pid);
/// Whether one GPU can do something with another.
[[nodiscard]] CUCORE_EXPORT GpuP2PStatus get_p2p_status(Device a, Device b, GpuP2PCapsIndex index);
/// What lies between two GPUs.
[[nodiscard]] CUCORE_EXPORT GpuTopologyLevel get_topology_common_ancestor(Device a, Device b);

}  // namespace cucore::system
