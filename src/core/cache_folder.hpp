// SPDX-License-Identifier: Apache-2.0
// core/cache_folder.hpp: the folder of this library's caches.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace cucore::detail {

/// Returns `cucore` in XDG_CACHE_HOME, else in ~/.cache, or std::nullopt if neither XDG_CACHE_HOME
/// nor HOME is an absolute path.
inline std::optional<std::filesystem::path> user_cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/')
    return std::filesystem::path{xdg} / "cucore";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return std::filesystem::path{home} / ".cache" / "cucore";
  return std::nullopt;
}

}  // namespace cucore::detail
