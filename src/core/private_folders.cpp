// SPDX-License-Identifier: Apache-2.0
// private_folders.cpp: creates folders that only their owner can access.
#include "core/private_folders.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace cucore::detail {

void make_private_folders(const std::filesystem::path& folder) {
  std::filesystem::path made;
  for (const auto& part : folder.lexically_normal()) {
    made /= part;
    if (::mkdir(made.c_str(), S_IRWXU) == 0 || errno == EEXIST) continue;
    // An existing parent folder may not be writable.
    const int why = errno;
    struct stat status;
    if (::stat(made.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) continue;
    throw std::system_error{why, std::generic_category(),
                            "cannot make the folder " + made.string()};
  }
}

}  // namespace cucore::detail
