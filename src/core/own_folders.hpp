// SPDX-License-Identifier: Apache-2.0
// own_folders.hpp: folders that are their owner's alone.
#pragma once

#include <filesystem>

namespace cucore::detail {

/// Makes the folder, and those above it that are missing, closed to everybody else whatever the
/// process's umask is. What is there already stays as it is. Throws std::system_error.
void make_own_folders(const std::filesystem::path& folder);

}  // namespace cucore::detail
