// SPDX-License-Identifier: Apache-2.0
// cpu/base/control_group.hpp: the limits of the process's control group.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace cucpu::driver {

/// The smallest memory limit of the process's control group and its parents, in version 1 or 2 of
/// the kernel's interface; nothing when there is no limit. `root` is the folder that contains /proc
/// and /sys.
std::optional<std::size_t> control_group_memory(const std::filesystem::path& root = "/");

/// The CPUs that the quota of CPU time allows, rounded up: `docker run --cpus=1.5` gives 2. As
/// above.
std::optional<unsigned> control_group_cpus(const std::filesystem::path& root = "/");

}  // namespace cucpu::driver
