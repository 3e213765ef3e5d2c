// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/schedule_points.hpp: the routines that code with schedule points calls
// (CUCORE_CPU_SCHEDULE). All act on the running fiber.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Before a plain, volatile or relaxed load. The thread sees its own stores, so those to these
/// bytes become visible. True: the load has the older value that is in `value` now.
bool cucpu_rt_schedule_load(const std::byte* address, std::byte* value, std::uint32_t bytes);
/// Before a load that is an acquire: it reads what is in memory, and so do later loads.
void cucpu_rt_schedule_acquire_load(const std::byte* address, std::uint32_t bytes);
/// Before an atomic operation, or a volatile or atomic store. `releases`: it makes all earlier
/// stores of the thread visible. `acquires`: later loads see what is in memory.
void cucpu_rt_schedule_atomic(const std::byte* address, std::uint32_t bytes, bool releases,
                              bool acquires);
/// In place of a plain store.
void cucpu_rt_schedule_store(std::byte* address, const std::byte* value, std::uint32_t bytes);
/// Before a fence, a barrier, or a routine that reads or writes memory.
void cucpu_rt_schedule_release();
/// After it: later loads see what is in memory.
void cucpu_rt_schedule_acquire();

}  // extern "C"
