// SPDX-License-Identifier: Apache-2.0
// Allocation of device memory, and checks of address ranges.
#include "cpu/device/memory.hpp"

#include "cpu/device/memory_pool.hpp"
#include "cpu/mem/address_space.hpp"

namespace cucpu::driver {

AllocationRef allocate_trimming_pools(std::size_t bytes, std::size_t align, Budget& budget) {
  try {
    return allocate_memory(bytes, align, &budget);
  } catch (const std::bad_alloc&) {
    if (!trim_all_pools()) throw;
    return allocate_memory(bytes, align, &budget);
  }
}

AllocationRef allocate_device(Context& context, std::size_t bytes, std::size_t align,
                              MemoryKind kind, unsigned flags) {
  const AllocationRef a = allocate_trimming_pools(bytes, align, context.device.budget);
  a->kind = kind;
  a->device = context.device.ordinal;
  a->context_id = context.id;
  a->flags = flags;
  MemoryMap::instance().insert_new(a);
  return a;
}

void require_device_range(CUdeviceptr address, std::size_t bytes) {
  if (bytes == 0) return;
  auto& map = MemoryMap::instance();
  require(map.find(address) && map.covers(address, bytes));
}

void require_any_range(CUdeviceptr address, std::size_t bytes) {
  if (bytes == 0) return;
  require(address != 0 && MemoryMap::instance().covers(address, bytes));
}

Ref<Stream> batch_stream(CUstream handle) {
  Ref<Stream> stream = stream_of(handle);
  require(stream->role() != StreamRole::legacy);
  return stream;
}

void require_parts(const std::size_t* starts, std::size_t parts, std::size_t count) {
  require(starts && parts > 0 && parts <= count && starts[0] == 0);
  for (std::size_t i = 1; i < parts; ++i) require(starts[i] < count);
}

bool is_pageable(CUdeviceptr address) {
  return !AddressSpace::instance().contains(address) && !MemoryMap::instance().find(address);
}

}  // namespace cucpu::driver
