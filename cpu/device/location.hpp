#pragma once

#include "cpu/base/abi.hpp"
#include "cpu/base/error.hpp"

/// Where memory lies and how it may be handed on, as allocations and pools describe it.
namespace cucpu::driver {

inline bool is_host(CUmemLocationType type) noexcept {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/// What a call answers that works on devices alone, for memory elsewhere.
inline CUresult not_on(CUmemLocationType type) noexcept {
  return type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

/// Files alone hand memory on here; Windows' handles and fabrics are known, and others none at all.
inline void check_handle_types(unsigned types) {
  constexpr unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                             CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
  require((types & ~known) == 0);
  require((types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace cucpu::driver
