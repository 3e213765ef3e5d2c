// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/texture_check.cpp
#include "cpu/engine/runtime/texture_check.hpp"

#include <algorithm>
#include <cstdio>

#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/texture.hpp"

namespace cucpu {

namespace {

/// Where generated code called the running routine; null: its grid has no race and init checks.
thread_local const void* t_fetch_pc = nullptr;

}  // namespace

void check_texel_fetch(const void* at, std::size_t bytes) {
  using namespace check;
  if (t_fetch_pc)
    check_routine_access(at, bytes, kRead | kImage | kFetch | kGlobalSpace, t_fetch_pc);
}

void check_texture_object(std::uint64_t object, const void* pc) {
  t_fetch_pc = is_checked_grid(check::kRace | check::kInit) ? pc : nullptr;
  if (!is_checked_grid(check::kMemory)) return;
  char text[160];
  if (g_is_texture && !g_is_texture(object)) {
    std::snprintf(text, sizeof text,
                  "0x%llx is no texture or surface object, or one that has been destroyed",
                  static_cast<unsigned long long>(object));
    return report_from_routine("use of a destroyed object", text, 0, pc);
  }
  const auto& t = *reinterpret_cast<const TextureObject*>(object);
  if (t.home || !t.data || t.levels) return;  // an array, which the object keeps
  const auto data = reinterpret_cast<std::uintptr_t>(t.data);
  const std::size_t bytes =
      std::size_t{t.width} * texel_bytes(t) + std::size_t{std::max(t.height, 1U) - 1} * t.row_pitch;
  const auto found = check_global(Worker::running()->current().block->context, data, bytes, 0);
  if (!found) return;
  std::snprintf(text, sizeof text, "access by the texture object 0x%llx, made for %zu bytes, ",
                static_cast<unsigned long long>(object), bytes);
  report_from_routine(found->first, text + found->second, data, pc);
}

}  // namespace cucpu
