// SPDX-License-Identifier: Apache-2.0
// cpu/device/memory_ops.hpp: makes batches of memory operations for streams and graph nodes.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

inline constexpr unsigned kMostMemoryOps = 256;  ///< limit of a batch

/// Fails with 1 for an unknown operation and for an unmapped or misaligned address.
Ref<MemoryOpsOp> make_memory_ops(const CUstreamBatchMemOpParams* list, unsigned count);

}  // namespace cucpu::driver
