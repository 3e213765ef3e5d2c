// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/schedule_points.hpp: the routines that code with schedule points calls
// (CUCORE_CPU_SCHEDULE). All act on the running fiber.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Before a load. The thread sees its own stores, so those to these bytes become visible.
void cucpu_rt_schedule_read(const std::byte* address, std::uint32_t bytes);
/// Before an atomic operation, or a volatile or atomic store. `releases`: it makes all earlier
/// stores of the thread visible.
void cucpu_rt_schedule_atomic(const std::byte* address, std::uint32_t bytes, bool releases);
/// In place of a plain store.
void cucpu_rt_schedule_store(std::byte* address, const std::byte* value, std::uint32_t bytes);
/// Before a fence, a barrier, or a routine that reads or writes memory.
void cucpu_rt_schedule_fence();

}  // extern "C"
