// SPDX-License-Identifier: Apache-2.0
// query.hpp: driver calls that return a result code instead of throwing.
#pragma once

#include <memory>
#include <optional>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if work is pending, or an error.
[[nodiscard]] CUCORE_EXPORT CUresult query(StreamRef stream) noexcept;
[[nodiscard]] CUCORE_EXPORT CUresult query(EventRef event) noexcept;
/// Blocks until the stream or event completes.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(StreamRef stream) noexcept;
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(EventRef event) noexcept;
/// Makes a context current on the calling thread and blocks until all its work completes.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(ContextRef context) noexcept;
/// Blocks until all work of the current context completes.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize_current_context() noexcept;
/// Records an event that captures all work of a context.
[[nodiscard]] CUCORE_EXPORT CUresult record(ContextRef context, EventRef event) noexcept;

/// Returns whether a stream is in a capture, including an invalidated one.
[[nodiscard]] CUCORE_EXPORT bool takes_part_in_capture(StreamRef stream) noexcept;
/// Releases `owner` in stream order. Returns false if the driver fails; the caller then keeps
/// `owner`.
[[nodiscard]] CUCORE_EXPORT bool release_after(StreamRef stream,
                                               std::shared_ptr<void>& owner) noexcept;

/// Returns CU_POINTER_ATTRIBUTE_MEMORY_TYPE, or std::nullopt if the driver does not know the
/// memory.
[[nodiscard]] CUCORE_EXPORT std::optional<unsigned> memory_type(CUdeviceptr ptr) noexcept;
/// Returns CU_POINTER_ATTRIBUTE_IS_MANAGED, or std::nullopt if the driver does not know the memory.
[[nodiscard]] CUCORE_EXPORT std::optional<bool> managed_memory(CUdeviceptr ptr) noexcept;
/// Ends the discarded state of managed memory by writing zeros to it in stream order. Pages that
/// stay discarded would lose what the host writes for the next owner. Migrating the pages is not
/// sufficient: an H200 then still read the data from before the discard.
CUCORE_EXPORT void end_discard(BufferRef memory, StreamRef stream) noexcept;

}  // namespace cucore::detail
