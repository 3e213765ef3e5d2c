// SPDX-License-Identifier: Apache-2.0
// cpu/image/container.hpp: the files that the CPU device has in place of cubins.
#pragma once

#include <string>
#include <vector>

namespace cucpu::driver {

inline constexpr char kContainerSection[] = ".cucore.ptx";

/// A container: an ELF file with the texts in `.cucore.ptx`.
std::string make_container(const std::vector<std::string>& texts);

}  // namespace cucpu::driver
