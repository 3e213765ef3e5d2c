// SPDX-License-Identifier: Apache-2.0
// system_linker.hpp: the dynamic linker's search, without loading a library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cucore::pathfinder {

/// Paths at which the dynamic linker would find `soname`, in its order: the program's run-time path
/// and LD_LIBRARY_PATH, the linker's cache, the default folders. Relative folders and empty entries
/// of LD_LIBRARY_PATH are skipped: the linker resolves them against the working directory, where
/// another user may have placed a file.
std::vector<std::string> linker_candidates(std::string_view soname);

/// Paths of `soname` for this architecture in the contents of ld.so.cache (format 1.1). Exposed for
/// tests. Accepts any `bytes`: a malformed cache yields no paths.
std::vector<std::string> paths_in_linker_cache(std::string_view bytes, std::string_view soname);

}  // namespace cucore::pathfinder
