// SPDX-License-Identifier: Apache-2.0
// cpu/device/memory.hpp: allocation of device memory, and checks of address ranges.
#pragma once

#include "cpu/device/context.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

/// As allocate_memory(); frees the unused memory of pools when the device has no more.
AllocationRef allocate_trimming_pools(std::size_t bytes, std::size_t align, Budget& budget);

/// Allocates zeroed device memory of a context and inserts it into the map. Fails with 2 at the
/// device's limit.
AllocationRef allocate_device(Context& context, std::size_t bytes, std::size_t align,
                              MemoryKind kind, unsigned flags = 0);

/// Fails unless [address, address + bytes) is memory that a device can access.
void require_device_range(CUdeviceptr address, std::size_t bytes);

/// Fails when a copy or fill would access mapped memory (cuMemMap) without read or write
/// permission, which would fault on the host.
void require_mapped_access(CUdeviceptr address, std::size_t bytes, bool write);

/// As require_device_range(), but also accepts ordinary host memory.
void require_any_range(CUdeviceptr address, std::size_t bytes);

/// The stream of a batch. Fails for the legacy default stream, which batches do not support.
Ref<Stream> batch_stream(CUstream handle);

/// Fails unless `starts` are the first indices of parts of a batch of `count`, with `starts[0] ==
/// 0`. Does not check their order.
void require_parts(const std::size_t* starts, std::size_t parts, std::size_t count);

/// True for ordinary host memory, neither allocated by nor registered with the driver.
bool is_pageable(CUdeviceptr address);

}  // namespace cucpu::driver
