// SPDX-License-Identifier: Apache-2.0
// system.cpp: versions, processes and pairs of GPUs, queried from NVML.
#include "cucore/system.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/nvml.hpp"
#include "cucore/driver.hpp"

namespace cucore::system {
namespace {

/// Returns the numbers of a version such as "580.65.06"; parts that are not numbers are skipped.
Version numbers_of(std::string_view text) {
  Version numbers;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('.'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc{} && end == part.data() + part.size()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Version get_user_mode_driver_version() {
  const int version = driver_info().version;
  return {version / 1000, version % 1000 / 10};
}
Version get_kernel_mode_driver_version() {
  return numbers_of(CUCORE_ASK_TEXT(nvmlSystemGetDriverVersion));
}
Version get_nvml_version() { return numbers_of(CUCORE_ASK_TEXT(nvmlSystemGetNVMLVersion)); }

std::string get_driver_branch() {
  nvmlSystemDriverBranchInfo_t info{};
  info.version = nvmlSystemDriverBranchInfo_v1;
  CUCORE_NVML(nvmlSystemGetDriverBranch, &info, sizeof info.branch);
  return info.branch;
}

int get_num_devices() { return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetCount_v2)); }

std::string get_process_name(unsigned pid) {
  std::string name(4096, '\0');
  CUCORE_NVML(nvmlSystemGetProcessName, pid, name.data(), static_cast<unsigned>(name.size()));
  name.resize(name.find('\0'));
  return name;
}

GpuP2PStatus get_p2p_status(Device a, Device b, GpuP2PCapsIndex index) {
  return static_cast<GpuP2PStatus>(CUCORE_ASK(nvmlGpuP2PStatus_t, nvmlDeviceGetP2PStatus,
                                              a.handle(), b.handle(),
                                              static_cast<nvmlGpuP2PCapsIndex_t>(index)));
}

GpuTopologyLevel get_topology_common_ancestor(Device a, Device b) {
  return static_cast<GpuTopologyLevel>(CUCORE_ASK(
      nvmlGpuTopologyLevel_t, nvmlDeviceGetTopologyCommonAncestor, a.handle(), b.handle()));
}

}  // namespace cucore::system
