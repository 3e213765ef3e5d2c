// cpu/device/memory_ops.hpp: a batch of memory operations, of a stream or a node of a graph.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

inline constexpr unsigned kMostMemoryOps = 256;  ///< in a batch

/// Fails with 1 where an operation is none, or its address is nowhere or not aligned.
Ref<MemoryOpsOp> make_memory_ops(const CUstreamBatchMemOpParams* list, unsigned count);

}  // namespace cucpu::driver
