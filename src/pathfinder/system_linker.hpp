// Where the dynamic linker would look for a library, without loading anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cucore::pathfinder {

/// Full paths at which the dynamic linker would find `soname`, best first: run-time paths of the
/// program and LD_LIBRARY_PATH, the linker's cache, the default folders. Relative folders are left
/// out: the linker reads them (and empty entries of LD_LIBRARY_PATH) as places under the working
/// directory, where anyone may have planted a file.
std::vector<std::string> linker_candidates(std::string_view soname);

/// The cache of the dynamic linker (ld.so.cache, format 1.1) as (soname, path) rows that suit this
/// machine. Exposed for tests: `bytes` may be anything; what is not a well-formed cache gives no
/// rows.
std::vector<std::string> paths_in_linker_cache(std::string_view bytes, std::string_view soname);

}  // namespace cucore::pathfinder
