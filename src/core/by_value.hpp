// SPDX-License-Identifier: Apache-2.0
// by_value.hpp: the contents of a buffer on their way to and from another process. The thread that
// sends or receives need not have a context, and keeps the one it has.
#pragma once

#include <cstddef>
#include <span>

#include "cucore/buffer.hpp"
#include "cucore/export.hpp"

namespace cucore::detail {

/// Waits for the stream that the buffer goes back on: work that uses the buffer is ordered before
/// its release, or nothing could close it.
CUCORE_EXPORT void wait_for(const Buffer& buffer);
/// Waits, and copies the contents to host memory of the same size. Throws std::invalid_argument for
/// another size.
CUCORE_EXPORT void fetch(const Buffer& from, std::span<std::byte> into);
/// Copies host memory to a buffer of the same size, and waits until every stream sees it.
CUCORE_EXPORT void store(const Buffer& into, std::span<const std::byte> from);

/// Lets devices use host memory where it lies, until unregister_host().
CUCORE_EXPORT void register_host(std::span<std::byte> memory, bool readonly);
CUCORE_EXPORT void unregister_host(std::byte* memory) noexcept;

}  // namespace cucore::detail
