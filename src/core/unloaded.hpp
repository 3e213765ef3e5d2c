// SPDX-License-Identifier: Apache-2.0
// unloaded.hpp: how often code was unloaded, or a context went with its code.
#pragma once

#include <atomic>
#include <cstdint>

#include "cucore/export.hpp"

namespace cucore::detail {

/// What is remembered of a kernel by its handle counts only while this number stays: the driver
/// may give the handle to another kernel then.
CUCORE_EXPORT extern std::atomic<std::uint64_t> unloaded_code;

}  // namespace cucore::detail
