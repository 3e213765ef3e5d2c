// cpu/base/control_group.hpp: the memory limit that containers and services put on a process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace cucpu::driver {

/// The least limit of the process's control group and those it is inside of, in both versions of
/// the kernel's interface; nothing when there is none. `root` is where /proc and /sys are.
std::optional<std::size_t> control_group_memory(const std::filesystem::path& root = "/");

}  // namespace cucpu::driver
