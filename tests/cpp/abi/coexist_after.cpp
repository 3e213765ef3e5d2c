// SPDX-License-Identifier: Apache-2.0
// Includes the rendered header, then <cuda.h>.
#include "cucore/abi/driver.h"
#ifdef CUCORE_HAVE_CUDA_HEADERS
#include <cuda.h>
#include <cudaTypedefs.h>
static_assert(sizeof(PFN_cuMemAlloc_v3020) ==
              sizeof(void*));  // cudaTypedefs.h compiles with the rendered types
#endif
#include "cucore/abi/runtime.h"

int coexist_after() {
  static_assert(sizeof(CUuuid) == 16);
  return CUDA_VERSION == CUDART_VERSION;
}
