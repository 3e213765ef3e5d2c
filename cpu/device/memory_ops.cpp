// SPDX-License-Identifier: Apache-2.0
// Batches of memory operations.
#include "cpu/device/memory_ops.hpp"

#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {
namespace {

void check(const CUstreamBatchMemOpParams& op) {
  const auto check_word = [](CUdeviceptr address, std::size_t bytes) {
    require(address % bytes == 0);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && address + bytes <= a->end());
  };
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      require((op.waitValue.flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)) == 0);
      check_word(op.waitValue.address, op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? 8 : 4);
      break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      require(op.writeValue.flags <= CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
      check_word(op.writeValue.address, op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4);
      break;
    case CU_STREAM_MEM_OP_BARRIER:
      require(op.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU);
      break;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      require(op.flushRemoteWrites.flags == 0);
      break;
    case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
      require(op.atomicReduction.flags == 0);
      require(op.atomicReduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_ADD ||
              op.atomicReduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_AND ||
              op.atomicReduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_OR);
      require(op.atomicReduction.dataType == CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32 ||
              op.atomicReduction.dataType == CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64);
      check_word(op.atomicReduction.address,
                 op.atomicReduction.dataType == CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64 ? 8 : 4);
      break;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace

Ref<MemoryOpsOp> make_memory_ops(const CUstreamBatchMemOpParams* list, unsigned count) {
  require(list && count > 0 && count <= kMostMemoryOps);
  for (unsigned i = 0; i < count; ++i) check(list[i]);
  return make_object<MemoryOpsOp>(std::vector(list, list + count));
}

}  // namespace cucpu::driver
