// SPDX-License-Identifier: Apache-2.0
// cpu/engine/device_runtime.hpp: functions of NVIDIA's device runtime library (libcudadevrt) that
// compilers call by name. Most synchronize a cooperative grid.
#pragma once

#include <string_view>

#include "cpu/ptx/ast.hpp"

namespace cucpu {

/// The PTX that defines cudaCG*.
[[nodiscard]] std::string_view device_runtime_text();

/// True for a function that a module declares and `device_runtime_text` defines.
[[nodiscard]] bool needs_device_runtime(const ptx::Function& function);

}  // namespace cucpu
