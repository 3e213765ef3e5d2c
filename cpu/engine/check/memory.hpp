// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/memory.hpp: initialized bytes of device memory (CUCORE_CHECK=init), and the
// device heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/engine/engine.hpp"

namespace cucpu {

/// Whether no byte of [address, address + bytes) of an allocation is initialized.
bool is_unwritten(const AllocationView&, std::uintptr_t address, std::size_t bytes);
void mark_written(const AllocationView&, std::uintptr_t address, std::size_t bytes);

/// Whether malloc in a kernel returned this address; set by the device heap.
extern bool (*g_device_heap_contains)(std::uintptr_t address);

}  // namespace cucpu
