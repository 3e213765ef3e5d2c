// SPDX-License-Identifier: Apache-2.0
// cucore/system.hpp: NVML queries, also of GPUs without CUDA; the CPU device has its own NVML.
#pragma once

#include <string>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/system_device.hpp"  // IWYU pragma: export
#include "cucore/system_events.hpp"  // IWYU pragma: export

namespace cucore::system {

/// Peer-to-peer capability between two GPUs.
enum class GpuP2PCapsIndex { read = 0, write, nvlink, atomics, pci, unknown };
/// Status of a peer-to-peer capability: supported, or the reason why not.
enum class GpuP2PStatus {
  ok = 0,
  chipset_not_supported,
  gpu_not_supported,
  ioh_topology_not_supported,
  disabled_by_regkey,
  not_supported,
  unknown
};

/// Components of a version, for example {580, 65, 6}.
using Version = std::vector<int>;
/// Returns the CUDA version of the user-mode driver, for example {13, 0}.
[[nodiscard]] CUCORE_EXPORT Version get_user_mode_driver_version();
/// Returns the version of the kernel-mode driver, for example {580, 65, 6}.
[[nodiscard]] CUCORE_EXPORT Version get_kernel_mode_driver_version();
/// Returns the version of NVML.
[[nodiscard]] CUCORE_EXPORT Version get_nvml_version();
/// Returns the name of the driver branch.
[[nodiscard]] CUCORE_EXPORT std::string get_driver_branch();
/// Returns the number of GPUs in the system.
[[nodiscard]] CUCORE_EXPORT int get_num_devices();
/// Returns the name of a process that uses a GPU.
[[nodiscard]] CUCORE_EXPORT std::string get_process_name(unsigned pid);
/// Returns the status of a peer-to-peer capability between two GPUs.
[[nodiscard]] CUCORE_EXPORT GpuP2PStatus get_p2p_status(Device a, Device b, GpuP2PCapsIndex index);
/// Returns the topology level of the nearest common ancestor of two GPUs.
[[nodiscard]] CUCORE_EXPORT GpuTopologyLevel get_topology_common_ancestor(Device a, Device b);

}  // namespace cucore::system
