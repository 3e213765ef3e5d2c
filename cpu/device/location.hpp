// SPDX-License-Identifier: Apache-2.0
// cpu/device/location.hpp: locations and export handle types of allocations and pools.
#pragma once

#include "cpu/base/abi.hpp"
#include "cpu/base/error.hpp"

namespace cucpu::driver {

inline bool is_host(CUmemLocationType type) noexcept {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/// The error of a call that supports only memory on devices, for memory at another location.
inline CUresult not_on(CUmemLocationType type) noexcept {
  return type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

/// Checks export handle types: file descriptors are supported (0 means none); handles of Windows
/// and fabric handles return 801, unknown types 1.
inline void check_handle_types(unsigned types) {
  constexpr unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                             CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
  require((types & ~known) == 0);
  require((types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace cucpu::driver
