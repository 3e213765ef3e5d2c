// SPDX-License-Identifier: Apache-2.0
// cpu/device/copy.hpp: makes copy operations from the descriptions of calls and graph nodes.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

/// Checks a description and resolves arrays and addresses. Fails with 1 for a range out of bounds.
Ref<CopyOp> make_copy(const CUDA_MEMCPY3D& params, CUcontext context = nullptr);

/// A contiguous copy; kinds are CU_MEMORYTYPE_HOST, _DEVICE or _UNIFIED.
Ref<CopyOp> make_copy(CUdeviceptr dst, CUmemorytype dst_kind, CUdeviceptr src,
                      CUmemorytype src_kind, std::size_t bytes);

/// Queues a copy with CUDA's rule for pageable memory: a pageable source is read, and a pageable
/// destination written, before the call returns.
void submit_copy(Stream& stream, Ref<CopyOp> op);

/// As submit_copy(); reads the source at once when `order` guarantees it only during the call.
void submit_copy_as(CUmemcpySrcAccessOrder order, Stream& stream, Ref<CopyOp> op);

}  // namespace cucpu::driver
