// SPDX-License-Identifier: Apache-2.0
#include "cpu/base/control_group.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace cucpu::driver {
namespace {

using Path = std::filesystem::path;

/// Reads the limit of a group and of its parents. In a container the path may name a folder that
/// exists only outside of it, so missing folders are skipped.
void look(const Path& top, const Path& group, const char* name, std::optional<std::size_t>& least) {
  for (Path folder = group;; folder = folder.parent_path()) {
    std::ifstream file{top / folder / name};
    std::size_t limit = 0;  // "max" (no limit) is not a number
    if (file >> limit && limit > 0) least = std::min(least.value_or(limit), limit);
    if (folder.empty()) return;
  }
}

/// The path of a group relative to the mounted hierarchy; the root for a path outside of it.
Path below(const std::string& path) {
  const Path relative = Path{path}.relative_path().lexically_normal();
  return relative.empty() || *relative.begin() == ".." || *relative.begin() == "." ? Path{}
                                                                                   : relative;
}

}  // namespace

std::optional<std::size_t> control_group_memory(const Path& root) {
  const Path mounted = root / "sys/fs/cgroup";
  std::optional<std::size_t> least;
  look(mounted, {}, "memory.max", least);
  look(mounted / "memory", {}, "memory.limit_in_bytes", least);
  std::ifstream groups{root / "proc/self/cgroup"};
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    std::istringstream fields{line};
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    if (!std::getline(fields, path)) continue;
    const Path group = below(path);
    if (controllers.empty()) {
      look(mounted, group, "memory.max", least);
      look(mounted / "unified", group, "memory.max", least);
      continue;
    }
    std::istringstream names{controllers};
    for (std::string name; std::getline(names, name, ',');)
      if (name == "memory") look(mounted / "memory", group, "memory.limit_in_bytes", least);
  }
  return least;
}

}  // namespace cucpu::driver
