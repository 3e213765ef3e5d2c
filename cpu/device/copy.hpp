// cpu/device/copy.hpp: copies as calls and graph nodes describe them, checked and made ready to
// run.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

/// Checks a description and resolves arrays and addresses. Fails with 1 for anything out of bounds.
Ref<CopyOp> make_copy(const CUDA_MEMCPY3D& params, CUcontext context = nullptr);

/// A run of bytes; kinds are CU_MEMORYTYPE_HOST, _DEVICE or _UNIFIED.
Ref<CopyOp> make_copy(CUdeviceptr dst, CUmemorytype dst_kind, CUdeviceptr src,
                      CUmemorytype src_kind, std::size_t bytes);

/// Queues a copy with CUDA's rule for pageable memory: such a source is read before the call
/// returns, such a destination is written before it returns.
void submit_copy(Stream& stream, Ref<CopyOp> op);

}  // namespace cucpu::driver
