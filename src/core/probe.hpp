// SPDX-License-Identifier: Apache-2.0
// probe.hpp: what lies at an address, found out without a fault.
#pragma once

#include <cstddef>

#include "cucore/export.hpp"

namespace cucore::detail {

/// True when this process can read so many bytes there; also where the system does not say.
[[nodiscard]] bool is_readable(const void* address, std::size_t bytes) noexcept;

/// True when this process can run code there; also where the system does not say. Reads
/// /proc/self/maps, which takes microseconds.
[[nodiscard]] CUCORE_EXPORT bool is_executable(const void* address) noexcept;

}  // namespace cucore::detail
