// SPDX-License-Identifier: Apache-2.0
// unload_count.hpp: counts unloads of code, including destruction of contexts with loaded code.
#pragma once

#include <atomic>
#include <cstdint>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Incremented by every unload. Data cached by kernel handle is valid only while this number is
/// unchanged, because the driver may then reuse the handle for another kernel.
CUCORE_EXPORT extern std::atomic<std::uint64_t> unload_count;

}  // namespace cucore::detail
