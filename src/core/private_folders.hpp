// SPDX-License-Identifier: Apache-2.0
// private_folders.hpp: creates folders that only their owner can access.
#pragma once

#include <filesystem>

namespace cucore::detail {

/// Creates the folder and its missing parents with permissions for the owner only, regardless of
/// the umask. Existing folders are not changed. Throws std::system_error.
void make_private_folders(const std::filesystem::path& folder);

}  // namespace cucore::detail
