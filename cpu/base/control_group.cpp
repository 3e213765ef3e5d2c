// SPDX-License-Identifier: Apache-2.0
#include "cpu/base/control_group.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace cucpu::driver {
namespace {

using Path = std::filesystem::path;

/// A file of the memory controller: a number of bytes; "max" (no limit) is not a number.
std::optional<std::size_t> read_bytes(const Path& file) {
  std::size_t bytes = 0;
  if (std::ifstream{file} >> bytes && bytes > 0) return bytes;
  return std::nullopt;
}

/// The CPUs that a quota of CPU time per period is worth, rounded up.
std::optional<std::size_t> cpus(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return std::nullopt;  // version 1 writes -1 for no limit
  return static_cast<std::size_t>((quota + period - 1) / period);
}

/// cpu.max of version 2: quota and period in microseconds; the quota may be "max".
std::optional<std::size_t> read_cpu_max(const Path& file) {
  std::int64_t quota = 0, period = 0;
  if (std::ifstream stream{file}; stream >> quota >> period) return cpus(quota, period);
  return std::nullopt;
}

/// cpu.cfs_quota_us of version 1; the period is in the file beside it.
std::optional<std::size_t> read_cfs_quota(const Path& file) {
  std::int64_t quota = 0, period = 0;
  if (std::ifstream{file} >> quota &&
      std::ifstream{file.parent_path() / "cpu.cfs_period_us"} >> period)
    return cpus(quota, period);
  return std::nullopt;
}

/// A controller of the kernel and the files that have its limit.
struct Controller {
  const char* name;      ///< in version 1, also of its folder
  const char* version1;  ///< file
  std::optional<std::size_t> (*read_version1)(const Path&);
  const char* version2;  ///< file
  std::optional<std::size_t> (*read_version2)(const Path&);
};

constexpr Controller kMemory{"memory", "memory.limit_in_bytes", read_bytes, "memory.max",
                             read_bytes};
constexpr Controller kCpu{"cpu", "cpu.cfs_quota_us", read_cfs_quota, "cpu.max", read_cpu_max};

/// The smallest limit of a group and of its parents.
class Limit {
 public:
  explicit Limit(const Controller& controller) : controller_{controller} {}
  void look_in_version1(const Path& top, const Path& group) {
    look(top, group, controller_.version1, controller_.read_version1);
  }
  void look_in_version2(const Path& top, const Path& group) {
    look(top, group, controller_.version2, controller_.read_version2);
  }
  [[nodiscard]] std::optional<std::size_t> least() const { return least_; }

 private:
  /// In a container the path may name a folder that exists only outside of it, so missing folders
  /// are skipped.
  void look(const Path& top, const Path& group, const char* name,
            std::optional<std::size_t> (*read)(const Path&)) {
    for (Path folder = group;; folder = folder.parent_path()) {
      if (const auto limit = read(top / folder / name))
        least_ = std::min(least_.value_or(*limit), *limit);
      if (folder.empty()) return;
    }
  }

  const Controller& controller_;
  std::optional<std::size_t> least_;
};

/// The path of a group relative to the mounted hierarchy; the root for a path outside of it.
Path below(const std::string& path) {
  const Path relative = Path{path}.relative_path().lexically_normal();
  return relative.empty() || *relative.begin() == ".." || *relative.begin() == "." ? Path{}
                                                                                   : relative;
}

std::optional<std::size_t> smallest_limit(const Controller& controller, const Path& root) {
  const Path mounted = root / "sys/fs/cgroup";
  Limit limit{controller};
  limit.look_in_version2(mounted, {});
  limit.look_in_version1(mounted / controller.name, {});
  std::ifstream groups{root / "proc/self/cgroup"};
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    std::istringstream fields{line};
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    if (!std::getline(fields, path)) continue;
    const Path group = below(path);
    if (controllers.empty()) {
      limit.look_in_version2(mounted, group);
      limit.look_in_version2(mounted / "unified", group);
      continue;
    }
    std::istringstream names{controllers};
    for (std::string name; std::getline(names, name, ',');)
      if (name == controller.name) limit.look_in_version1(mounted / controller.name, group);
  }
  return limit.least();
}

}  // namespace

std::optional<std::size_t> control_group_memory(const Path& root) {
  return smallest_limit(kMemory, root);
}

std::optional<unsigned> control_group_cpus(const Path& root) {
  if (const auto cpus = smallest_limit(kCpu, root)) return static_cast<unsigned>(*cpus);
  return std::nullopt;
}

}  // namespace cucpu::driver
