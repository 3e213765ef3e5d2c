// SPDX-License-Identifier: Apache-2.0
/* Every rendered header in one C translation unit. */
#include "cucore/abi/cufile.h"
#include "cucore/abi/cupti.h"
#include "cucore/abi/driver.h"
#include "cucore/abi/nvfatbin.h"
#include "cucore/abi/nvjitlink.h"
#include "cucore/abi/nvml.h"
#include "cucore/abi/nvrtc.h"
#include "cucore/abi/nvvm.h"
#include "cucore/abi/runtime.h"

int cucore_c_headers_compile(void) {
  CUdeviceptr pointer = 0;
  _Static_assert(sizeof(CUtensorMap) == 128, "C has the alignment of C++");
  return (int)sizeof(pointer);
}
