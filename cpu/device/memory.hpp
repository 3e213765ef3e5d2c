// cpu/device/memory.hpp: helpers that entry points taking addresses share.
#pragma once

#include "cpu/device/context.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

/// allocate_memory() that takes what pools hold free, where there is no more.
AllocationRef allocate_trimming_pools(std::size_t bytes, std::size_t align, Budget& budget);

/// Device memory of a context, zeroed, in the map. Fails with code 2 over the device's limit.
AllocationRef allocate_device(Context& context, std::size_t bytes, std::size_t align,
                              MemoryKind kind, unsigned flags = 0);

/// Fails unless [address, address + bytes) lies in memory a device can reach.
void require_device_range(CUdeviceptr address, std::size_t bytes);

/// Fails where a copy or fill would touch mapped memory (cuMemMap) that nobody may read, or write,
/// yet: the host does the work, and would fault.
void require_mapped_access(CUdeviceptr address, std::size_t bytes, bool write);

/// As require_device_range(); ordinary host memory is fine too.
void require_any_range(CUdeviceptr address, std::size_t bytes);

/// The stream of a batch. Fails for the legacy default stream: batches do not go there.
Ref<Stream> batch_stream(CUstream handle);

/// Fails unless `starts` are where parts of a batch of `count` begin, the first of them at 0. Their
/// order is the caller's matter.
void require_parts(const std::size_t* starts, std::size_t parts, std::size_t count);

/// Ordinary host memory: neither allocated by nor registered with the driver.
bool is_pageable(CUdeviceptr address);

}  // namespace cucpu::driver
