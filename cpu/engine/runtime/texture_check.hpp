// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/texture_check.hpp: check mode for textures and surfaces.
#pragma once

#include <cstdint>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/routine_access.hpp"

namespace cucpu {

// As the functions below, in a process with check mode.
void check_texture_object(std::uint64_t object, const void* pc);
void check_texel_fetch(const void* at, std::size_t bytes);

/// Check mode: reports an object that has been destroyed, or whose memory is not allocated any
/// more. `pc`: where generated code called the routine.
inline void check_texture(std::uint64_t object, const void* pc) {
  if (g_is_checking.load(std::memory_order_relaxed)) [[unlikely]]
    check_texture_object(object, pc);
}

/// Race and init checks of a texel that a fetch reads, after check_texture().
inline void check_texel(const void* at, std::size_t bytes) {
  if (g_is_checking.load(std::memory_order_relaxed)) [[unlikely]]
    check_texel_fetch(at, bytes);
}

/// Race and init checks of an access of a routine to a surface.
inline void check_surface(const void* at, std::size_t bytes, unsigned flags, const void* pc) {
  if (is_checked(check::kRace | check::kInit)) [[unlikely]]
    check_routine_access(at, bytes, flags | check::kImage | check::kGlobalSpace, pc);
}

}  // namespace cucpu
