// cpu/engine/check/memory.hpp: which bytes of device memory have values (CUCORE_CHECK=init), and
// the heap of kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/engine/engine.hpp"

namespace cucpu {

/// True when [address, address + bytes) of an allocation has no byte with a value.
bool is_unwritten(const AllocationView&, std::uintptr_t address, std::size_t bytes);
void mark_written(const AllocationView&, std::uintptr_t address, std::size_t bytes);

/// Set by the heap of kernels: whether malloc gave this address.
extern bool (*g_device_heap_contains)(std::uintptr_t address);

}  // namespace cucpu
