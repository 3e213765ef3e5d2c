// SPDX-License-Identifier: Apache-2.0
// Attributes of functions.
#include <algorithm>

#include "cpu/device/context.hpp"
#include "cpu/device/module.hpp"

namespace cucpu::driver {

std::size_t dynamic_shared_limit(const Limits& limits, const cucpu::KernelInfo& info,
                                 const FunctionSettings& settings) {
  const int chosen = settings.max_dynamic_shared;
  if (chosen >= 0) return static_cast<std::size_t>(chosen);
  return limits.shared_per_block -
         std::min<std::size_t>(limits.shared_per_block, info.static_shared_bytes);
}

int function_attribute(const Limits& limits, const cucpu::KernelInfo& info,
                       const FunctionSettings& settings, CUfunction_attribute attribute) {
  const auto cluster = [&](std::uint32_t cucpu::Dim3::*axis, int set) {
    return info.required_cluster ? static_cast<int>((*info.required_cluster).*axis) : set;
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(info.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(info.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return static_cast<int>(info.const_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(info.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(info.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return static_cast<int>(info.target);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return static_cast<int>(limits.target());
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return static_cast<int>(dynamic_shared_limit(limits, info, settings));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return settings.carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return info.explicit_cluster;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return cluster(&cucpu::Dim3::x, settings.cluster_x);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return cluster(&cucpu::Dim3::y, settings.cluster_y);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return cluster(&cucpu::Dim3::z, settings.cluster_z);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return settings.non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return settings.cluster_policy;
    case CU_FUNC_ATTRIBUTE_DEVICE_NODE_UPDATE_SUPPORTED:
      return 0;
    case CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE:
      return 0;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void set_function_attribute(const Limits& limits, const cucpu::KernelInfo& info,
                            FunctionSettings& settings, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      require(value >= 0 && static_cast<std::size_t>(value) + info.static_shared_bytes <=
                                limits.shared_per_block_opt_in);
      settings.max_dynamic_shared = value;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      require(value >= -1 && value <= 100);
      settings.carveout = value;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      require(value == 0 || value == 1);
      settings.non_portable_cluster = value;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      require(value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
              value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
      settings.cluster_policy = value;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      require(value >= 0 && value <= static_cast<int>(kMaxCluster));
      require(!info.required_cluster, CUDA_ERROR_NOT_PERMITTED);  // fixed at compile time
      auto& axis = attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH    ? settings.cluster_x
                   : attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT ? settings.cluster_y
                                                                            : settings.cluster_z;
      axis = value;
      break;
    }
    default:
      fail(CUDA_ERROR_INVALID_VALUE);  // the other attributes are read-only
  }
}

}  // namespace cucpu::driver
