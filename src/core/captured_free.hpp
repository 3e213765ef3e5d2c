// SPDX-License-Identifier: Apache-2.0
// captured_free.hpp: frees memory whose stream is capturing. The capture would record the free as a
// graph node, and such a node accepts only memory of graph allocations.
#pragma once

#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// Frees pool memory in stream order. If the stream is capturing, the free is deferred until the
/// capture ends.
CUresult free_in_order(CUdeviceptr ptr, StreamRef stream);

/// Frees the memory of deferred frees whose captures have ended. Called by code that ends a
/// capture.
CUCORE_EXPORT void free_after_captures() noexcept;

/// Removes a stream from the deferred frees. Called before the stream is destroyed, which ends its
/// capture.
void erase_stream(CUstream stream) noexcept;

}  // namespace cucore::detail
