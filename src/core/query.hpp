// SPDX-License-Identifier: Apache-2.0
// query.hpp: questions to the driver whose failure is an answer: nothing here throws.
#pragma once

#include <memory>
#include <optional>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// CUDA_SUCCESS, CUDA_ERROR_NOT_READY while work is pending, or an error.
[[nodiscard]] CUCORE_EXPORT CUresult query(StreamRef stream) noexcept;
[[nodiscard]] CUCORE_EXPORT CUresult query(EventRef event) noexcept;
/// Blocks until the work is done.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(StreamRef stream) noexcept;
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(EventRef event) noexcept;
/// Makes a context current on this thread and blocks until all its work is done.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize(ContextRef context) noexcept;
/// The same for the context that is current.
[[nodiscard]] CUCORE_EXPORT CUresult synchronize_current_context() noexcept;
/// Records all work of a context in an event.
[[nodiscard]] CUCORE_EXPORT CUresult record(ContextRef context, EventRef event) noexcept;

/// True for a stream in a capture, also in one that a forbidden call has broken.
[[nodiscard]] CUCORE_EXPORT bool takes_part_in_capture(StreamRef stream) noexcept;
/// Lets go of `owner` once the work queued on the stream is done; false where the driver refuses,
/// and `owner` is still the caller's.
[[nodiscard]] CUCORE_EXPORT bool forget_after(StreamRef stream,
                                              std::shared_ptr<void>& owner) noexcept;

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE; nothing where the driver does not know the memory.
[[nodiscard]] CUCORE_EXPORT std::optional<unsigned> memory_type(CUdeviceptr ptr) noexcept;
/// CU_POINTER_ATTRIBUTE_IS_MANAGED; nothing where the driver does not know the memory.
[[nodiscard]] CUCORE_EXPORT std::optional<bool> managed_memory(CUdeviceptr ptr) noexcept;
/// Writes over discarded managed memory on the stream: pages that stay marked would lose what the
/// host writes for the next owner. To move them is not enough (an H200 then still read what was
/// there before the discard); a write ends it.
CUCORE_EXPORT void end_discard(BufferRef memory, StreamRef stream) noexcept;

}  // namespace cucore::detail
