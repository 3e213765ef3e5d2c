// SPDX-License-Identifier: Apache-2.0
// Memsets: checks of the range.
#include "cpu/device/fill.hpp"

#include "cpu/device/context.hpp"
#include "cpu/device/memory.hpp"

namespace cucpu::driver {

Ref<FillOp> make_fill(const CUDA_MEMSET_NODE_PARAMS& given, CUcontext context) {
  CUDA_MEMSET_NODE_PARAMS p = given;
  require(p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4);
  require(p.width <= (std::size_t{1} << 46));
  const std::size_t row = p.width * p.elementSize;
  if (p.width > 0 && p.height > 0) {
    require(p.dst % p.elementSize == 0);
    if (p.height > 1) {
      require(p.pitch >= row && p.pitch % p.elementSize == 0);
      require(p.height <= (std::size_t{1} << 46) / p.pitch);
    }
    require_device_range(p.dst, (p.height - 1) * p.pitch + row);
    require_mapped_access(p.dst, (p.height - 1) * p.pitch + row, true);
  }
  return make_object<FillOp>(p, context);
}

}  // namespace cucpu::driver
