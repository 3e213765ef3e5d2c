// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/routine_access.hpp: check mode for memory that routines access on behalf of a
// thread: tensor copies, textures. `pc`: where generated code called the routine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cpu/engine/engine.hpp"

namespace cucpu {

/// Whether any grid of the process was checked: without check mode, routines test only this.
inline std::atomic<bool> g_is_checking{false};

/// Whether a texture or surface object exists, or is used by queued work; set by the driver layer.
inline bool (*g_is_texture)(unsigned long long object) = nullptr;

/// The memory of the array that contains the address; set by the driver layer.
inline std::optional<AllocationView> (*g_find_array)(std::uintptr_t address) = nullptr;

/// Whether memory that no kernel or copy of the process has written may hold data: another process
/// may have written it, or it reads as zeros (a tile without memory). Asked before a report; set by
/// the driver layer.
inline bool (*g_may_hold_data)(std::uintptr_t address, std::size_t bytes) = nullptr;

/// Where accesses of surfaces go whose coordinates are out of range.
alignas(16) inline thread_local std::byte t_outside_surface[32];
inline bool is_outside_surface(std::uintptr_t address) {
  return address - reinterpret_cast<std::uintptr_t>(t_outside_surface) < sizeof t_outside_surface;
}

/// Whether the running grid checks any of these check::Kinds.
bool is_checked_grid(unsigned kinds);
inline bool is_checked(unsigned kinds) {
  return g_is_checking.load(std::memory_order_relaxed) && is_checked_grid(kinds);
}

/// Checks an access of the running thread (flags: check::AccessFlag). Does not return after a
/// finding.
void check_routine_access(const void* address, std::size_t bytes, unsigned flags, const void* pc);

/// Reports a finding of the memory check (700). Returns only if the kernel continues.
void report_from_routine(const char* name, std::string text, std::uintptr_t address,
                         const void* pc);

// ---- for the driver layer; without init checks they do nothing ----

/// The bytes are uninitialized again.
void check_host_clear(std::uintptr_t address, std::size_t bytes) noexcept;
/// How many of the bytes an operation of the driver may read, up to the first uninitialized one.
std::size_t check_host_read(std::uintptr_t address, std::size_t bytes) noexcept;
/// The report of an uninitialized read by the operation `name`; empty: suppressed, or printed.
std::string report_host_read(std::uintptr_t address, const std::string& name) noexcept;

}  // namespace cucpu
