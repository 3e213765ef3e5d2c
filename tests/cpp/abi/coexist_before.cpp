// SPDX-License-Identifier: Apache-2.0
// Includes <cuda.h>, then the rendered header, as a user of the C++ library may.
#ifdef CUCORE_HAVE_CUDA_HEADERS
#include <cuda.h>
#endif
#include "cucore/abi/driver.h"

int coexist_before() {
  CUresult (*query)(CUstream) = nullptr;
  static_assert(sizeof(CUdeviceptr) == 8);
  using Alloc = decltype(&cuMemAlloc);
  Alloc alloc = nullptr;
  return query == nullptr && alloc == nullptr && CUDA_ERROR_NOT_SUPPORTED == 801;
}
