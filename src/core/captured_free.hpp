// SPDX-License-Identifier: Apache-2.0
// captured_free.hpp: frees of memory while its stream is being captured. The capture would turn
// the free into a node of the graph, and such a node accepts memory of graph allocations only.
#pragma once

#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// Frees memory of a pool in the order of a stream; where that is being captured, when the capture
/// is over.
CUresult free_in_order(CUdeviceptr ptr, StreamRef stream);

/// Frees what captures have held up that are over by now. For those who end one.
CUCORE_EXPORT void free_after_captures() noexcept;

/// Before a stream is destroyed, which ends its capture.
void forget_stream(CUstream stream) noexcept;

}  // namespace cucore::detail
