// SPDX-License-Identifier: Apache-2.0
// cpu/device/fill.hpp: makes memset operations from the descriptions of calls and graph nodes.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

/// Checks the element size, the pitch and the range. Fails with 1.
Ref<FillOp> make_fill(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context = nullptr);

}  // namespace cucpu::driver
