// SPDX-License-Identifier: Apache-2.0
// probe.hpp: tests access to addresses without faulting.
#pragma once

#include <cstddef>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Returns whether this process can read `bytes` bytes at `address`. True if that cannot be
/// determined.
[[nodiscard]] bool is_readable(const void* address, std::size_t bytes) noexcept;

/// Returns whether this process can execute code at `address`. True if that cannot be determined.
/// Reads /proc/self/maps, which takes microseconds.
[[nodiscard]] CUCORE_EXPORT bool is_executable(const void* address) noexcept;

}  // namespace cucore::detail
