// The search itself: which files are tried, in which order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cucore/pathfinder.hpp"
#include "pathfinder/catalogue.hpp"

namespace cucore::pathfinder {

/// A place to try: `file` must be there, `path` is the answer (the folder for headers, else the
/// file).
struct Candidate {
  std::string step;
  std::string path;
  std::string file;
  std::string filename;
  std::string root;  ///< what the folders of the catalogue hang from; empty for the linker's
};

/// Calls `visit` for every place of the documented order until it answers true; steps that do not
/// apply are noted in `report`. Already loaded libraries are not part of it: the loader asks for
/// them first.
void walk(Kind kind, const Entry& entry, SearchReport& report,
          const std::function<bool(const Candidate&)>& visit);

/// True when the component is there, without loading it.
bool is_there(Kind kind, const Candidate& candidate);

/// False for headers that include others which are nowhere under the candidate's root: a wheel of
/// the runtime without the compiler's.
bool is_whole(const Entry& entry, const Candidate& candidate);

/// The folder that has the compiler's headers (crt/host_defines.h), in the order of any search.
std::optional<Located> locate_compiler_headers();

}  // namespace cucore::pathfinder
