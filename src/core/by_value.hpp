// SPDX-License-Identifier: Apache-2.0
// by_value.hpp: transfers the contents of a buffer between processes. The calling thread does not
// need a current context; if it has one, it stays current.
#pragma once

#include <cstddef>
#include <span>

#include "cucore/buffer.hpp"
#include "cucore/export.hpp"

namespace cucore::detail {

/// Blocks until the buffer's deallocation stream is synchronized. All work that uses the buffer is
/// ordered before its deallocation on that stream.
CUCORE_EXPORT void wait_for(const Buffer& buffer);
/// Synchronizes as wait_for() does, then copies the contents to host memory. Throws
/// std::invalid_argument if the sizes differ.
CUCORE_EXPORT void fetch(const Buffer& from, std::span<std::byte> into);
/// Copies host memory to a buffer of the same size. Blocks until the data is visible to all
/// streams.
CUCORE_EXPORT void store(const Buffer& into, std::span<const std::byte> from);

/// Registers host memory so that devices can access it, until unregister_host().
CUCORE_EXPORT void register_host(std::span<std::byte> memory, bool readonly);
CUCORE_EXPORT void unregister_host(std::byte* memory) noexcept;

}  // namespace cucore::detail
